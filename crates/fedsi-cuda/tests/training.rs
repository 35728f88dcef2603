//! The general training kernel, run by the emulator, against `fedsi_nn::Trainer` in f64. Most tests take one step of SGD at
//! rate 1, whose change is the gradient.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

mod emulator;
mod training_cases;

use fedsi_cuda::CudaError;
use fedsi_cuda::kernel::DeviceLimits;
use fedsi_cuda::training::{LossKind, OptimizerKind, TrainingRequest, general};
use fedsi_fl::parameters::Part;
use fedsi_nn::LayerSpec::{
    AvgPool, Conv, Flatten, Gelu, Identity, LeakyRelu, Linear, MaxPool, Relu, Sigmoid, Silu, Softplus, Tanh,
};
use fedsi_nn::{ConvSpec, LayerSpec, Loss, Network, OptimizerSpec, PoolSpec};
use training_cases::{Case, bits_of, check};

fn conv(out: usize, kernel: usize, stride: usize, padding: usize) -> LayerSpec {
    Conv(ConvSpec { out, kernel, stride, padding })
}

fn max_pool(window: usize, stride: usize) -> LayerSpec {
    MaxPool(PoolSpec { window, stride })
}

#[test]
fn linear_layers_of_odd_sizes() {
    check("linear", &Case::new(&[13], &[Linear(17), Relu, Linear(130), Relu, Linear(5)]));
    check("linear with one input and one output", &Case { loss: GAUSSIAN, ..Case::new(&[1], &[Linear(1)]) });
}

#[test]
fn linear_layers_wider_than_a_block() {
    check("linear, 2,100 inputs", &Case::new(&[3], &[Linear(2100), Tanh, Linear(4)]));
    check("linear, 784 inputs as they lie in the data", &Case::new(&[784], &[Linear(10), Relu, Linear(3)]));
}

#[test]
fn convolutions_with_pairwise_pooling() {
    let layers = [
        conv(6, 5, 1, 0),
        Relu,
        max_pool(2, 2),
        conv(16, 2, 1, 0),
        Relu,
        max_pool(2, 2),
        Flatten,
        Linear(9),
        Relu,
        Linear(4),
    ];
    check("conv, relu, maxpool", &Case::new(&[3, 12, 12], &layers));
    let layers =
        [conv(3, 2, 1, 1), max_pool(2, 2), Tanh, conv(9, 2, 1, 0), max_pool(2, 2), Flatten, Linear(3)];
    check("conv, maxpool, tanh", &Case::new(&[2, 7, 8], &layers));
}

#[test]
fn convolutions_with_stride_and_padding() {
    let layers = [conv(5, 3, 2, 1), Tanh, conv(9, 2, 1, 1), Flatten, Linear(3)];
    check("conv, stride 2, padding 1", &Case::new(&[2, 9, 7], &layers));
    let layers = [conv(2, 1, 1, 0), Sigmoid, conv(3, 4, 3, 2), Sigmoid, Flatten, Linear(2)];
    check("conv, kernel 4, stride 3, padding 2", &Case::new(&[1, 8, 10], &layers));
    let layers =
        [conv(4, 2, 2, 0), Tanh, max_pool(2, 2), conv(3, 3, 2, 2), Relu, max_pool(2, 2), Flatten, Linear(2)];
    check("conv, stride 2, with pooling", &Case::new(&[3, 13, 14], &layers));
}

#[test]
fn convolutions_with_many_channels() {
    let layers = [conv(21, 3, 1, 1), Relu, conv(34, 3, 1, 0), Relu, max_pool(2, 2), Flatten, Linear(3)];
    check("conv, 21 and 34 channels", &Case { batch: 3, ..Case::new(&[3, 6, 6], &layers) });
}

#[test]
fn pooling_of_other_windows() {
    let layers = [
        conv(3, 2, 1, 0),
        Relu,
        max_pool(3, 1),
        AvgPool(PoolSpec { window: 2, stride: 1 }),
        Relu,
        Flatten,
        Linear(3),
    ];
    check("maxpool 3 stride 1, avgpool 2 stride 1", &Case::new(&[2, 9, 8], &layers));
    let layers = [
        conv(3, 2, 1, 0),
        AvgPool(PoolSpec::square(3)),
        Tanh,
        max_pool(1, 2),
        conv(2, 1, 1, 0),
        Flatten,
        Linear(3),
    ];
    check("avgpool 3, maxpool 1 stride 2", &Case::new(&[1, 11, 10], &layers));
}

#[test]
fn the_first_of_equal_pixels_wins() {
    let whole = |layers: &[LayerSpec]| Case { whole_inputs: true, ..Case::new(&[1, 8, 8], layers) };
    check("maxpool 3 with ties", &whole(&[conv(3, 1, 1, 0), max_pool(3, 2), Flatten, Linear(3)]));
    check("conv, maxpool 2 with ties", &whole(&[conv(3, 1, 1, 0), max_pool(2, 2), Flatten, Linear(3)]));
}

#[test]
fn activations() {
    let functions = [Relu, LeakyRelu(0.1), LeakyRelu(-0.3), Tanh, Sigmoid, Silu, Softplus, Gelu, Identity];
    for function in functions {
        let name = format!("{function:?} behind a linear layer and behind another activation");
        check(&name, &Case::new(&[6], &[Linear(9), function.clone(), Linear(7), Gelu, function, Linear(3)]));
    }
}

#[test]
fn activations_of_images() {
    for function in [Relu, Silu] {
        let name = format!("{function:?} on inputs, between convolutions with padding and behind pooling");
        let layers = [
            function.clone(),
            conv(2, 2, 1, 0),
            function.clone(),
            conv(3, 3, 1, 2),
            AvgPool(PoolSpec::square(2)),
            function,
            Flatten,
            Linear(3),
        ];
        check(&name, &Case::new(&[2, 5, 6], &layers));
    }
}

const GAUSSIAN: Loss = Loss::Gaussian { noise: 0.7 };
const ADAM: OptimizerSpec = OptimizerSpec::Adam { rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-3 };

#[test]
fn losses() {
    let layers = [Linear(8), Tanh, Linear(3)];
    check("Gaussian loss", &Case { loss: GAUSSIAN, ..Case::new(&[5], &layers) });
    check("cross-entropy of 40 classes", &Case::new(&[5], &[Linear(8), Tanh, Linear(40)]));
    let far = Case { scale: 60.0, ..Case::new(&[5], &layers) };
    check("cross-entropy of logits far apart", &far);
}

#[test]
fn optimisers() {
    let layers = [conv(4, 2, 1, 0), Tanh, max_pool(2, 2), Flatten, Linear(6), Tanh, Linear(3)];
    let momentum = OptimizerSpec::Sgd { rate: 0.3, momentum: 0.8 };
    for (name, optimizer) in [("Adam", ADAM), ("SGD with momentum", momentum)] {
        check(name, &Case { optimizer, steps: 4, prior: true, ..Case::new(&[1, 6, 7], &layers) });
    }
    check("SGD with a prior", &Case { prior: true, ..Case::new(&[1, 6, 7], &layers) });
}

#[test]
fn a_frozen_head_and_a_frozen_body() {
    let layers = [conv(4, 2, 1, 0), Relu, max_pool(2, 2), Flatten, Linear(6), Tanh, Linear(3)];
    for part in [Part::Body, Part::Head, Part::Nothing] {
        check(&format!("{part:?} moves"), &Case { part, prior: true, ..Case::new(&[1, 6, 7], &layers) });
    }
}

#[test]
fn several_heads() {
    let layers = [Linear(8), Tanh, Linear(3)];
    for (part, loss) in [(Part::Body, Loss::CrossEntropy), (Part::All, GAUSSIAN)] {
        check(&format!("{loss:?} under 5 heads"), &Case { part, loss, heads: 5, ..Case::new(&[4], &layers) });
    }
}

#[test]
fn batches_of_any_size() {
    let layers = [conv(3, 3, 1, 1), Relu, max_pool(2, 2), Flatten, Linear(6), Relu, Linear(3)];
    for batch in [2, 61] {
        let name = format!("batches of {batch} and less");
        let optimizer = OptimizerSpec::Sgd { rate: 0.1, momentum: 0.0 };
        check(
            &name,
            &Case { batch, optimizer, steps: 3, short_last: true, ..Case::new(&[2, 4, 5], &layers) },
        );
    }
}

#[test]
fn networks_larger_than_shared_memory() {
    let limits = DeviceLimits { shared_bytes: 36_000, ..training_cases::LIMITS };
    let layers = [
        conv(7, 3, 1, 1),
        Relu,
        max_pool(2, 2),
        conv(9, 3, 1, 0),
        Tanh,
        max_pool(3, 1),
        Flatten,
        Linear(20),
        Gelu,
        Linear(3),
    ];
    check("buffers in global memory", &Case { limits, noise: None, ..Case::new(&[3, 12, 12], &layers) });
    check(
        "planes larger than shared memory",
        &Case {
            limits,
            batch: 2,
            ..Case::new(&[1, 40, 40], &[conv(2, 1, 1, 0), Relu, conv(8, 30, 1, 0), Flatten, Linear(3)])
        },
    );
}

#[test]
fn noise_on_parameters() {
    let noise = Some((0.3, 0.2));
    check(
        "noise on linear layers",
        &Case { noise, ..Case::new(&[5], &[Linear(7), Tanh, Linear(6), Tanh, Linear(3)]) },
    );
    let layers = [conv(3, 2, 1, 0), Tanh, conv(2, 2, 1, 1), Tanh, Flatten, Linear(3)];
    check("noise on convolutions", &Case { noise, ..Case::new(&[1, 4, 4], &layers) });
    let frozen = Case { noise, part: Part::Body, ..Case::new(&[1, 4, 4], &layers) };
    check("noise on layers that move only", &frozen);
    check(
        "noise at the second step",
        &Case {
            noise,
            steps: 2,
            optimizer: OptimizerSpec::Sgd { rate: 0.2, momentum: 0.0 },
            ..Case::new(&[5], &[Linear(4), Tanh, Linear(3)])
        },
    );
}

#[test]
fn a_client_does_not_depend_on_others_nor_on_the_order_of_threads() {
    let layers = [conv(3, 3, 1, 1), Relu, max_pool(2, 2), Flatten, Linear(6), Relu, Linear(3)];
    let case = Case { optimizer: ADAM, steps: 3, noise: Some((0.1, 0.1)), ..Case::new(&[2, 4, 5], &layers) };
    let Some(found) = bits_of(&case) else { return };
    assert!(
        found.windows(2).all(|pair| pair[0] == pair[1]),
        "a client's result depends on threads or other clients"
    );
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let network = Network::new(&[2], &[Linear(4)]).unwrap();
    let request = TrainingRequest {
        network: &network,
        part: Part::All,
        loss: LossKind::CrossEntropy,
        optimizer: OptimizerKind::Sgd,
        prior: false,
        weight_noise: false,
        heads: 3,
        batch: 5,
    };
    let refused = general::kernel(&request, &DeviceLimits::H200).unwrap_err();
    assert!(
        matches!(&refused, CudaError::Unsupported(text) if text.contains("4 outputs under 3 heads")),
        "{refused}"
    );
    let empty = TrainingRequest { heads: 1, batch: 0, ..request };
    assert!(general::kernel(&empty, &DeviceLimits::H200).is_err());
}
