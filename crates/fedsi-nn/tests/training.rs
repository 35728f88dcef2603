//! What training promises besides the right numbers.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_nn::{LayerSpec, Loss, Network, NetworkError, OptimizerSpec, Tape, Targets, Trainer, WeightNoise};
use support::{conv, numbers, zoo};

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

#[test]
fn a_training_step_allocates_nothing() {
    for (name, network) in zoo() {
        let mut parameters = single(&numbers(1, network.layout().len()));
        let inputs = single(&numbers(2, 20 * network.inputs()));
        let labels: Vec<u32> = (0..20).map(|row| row % network.outputs() as u32).collect();
        let adam = OptimizerSpec::adam(1e-3);
        let mut trainer = Trainer::new(&network, network.all_layers(), Loss::CrossEntropy, adam, 10);
        let rows: Vec<u32> = (3..13).collect();
        let mut step = || trainer.step(&network, &mut parameters, &inputs, Targets::Classes(&labels), &rows);
        step(); // the matrix library prepares its own memory once per thread
        let counted = allocation_counter::measure(|| {
            step();
        });
        assert_eq!(counted.count_total, 0, "{name}: allocations in a step");

        let (layers, mut rng) = (network.all_layers(), stream(1));
        let mut step = || {
            let noise = WeightNoise { layers: &layers, deviation: 0.1, convolution_deviation: 0.1 };
            let labels = Targets::Classes(&labels);
            trainer.noisy_step(&network, &mut parameters, &inputs, labels, &rows, noise, &mut rng)
        };
        step(); // room for the noise
        let counted = allocation_counter::measure(|| {
            step();
        });
        assert_eq!(counted.count_total, 0, "{name}: allocations in a noisy step");
    }
}

fn stream(seed: u64) -> fedsi_random::ChaCha8Rng {
    fedsi_random::Streams::new(seed).stream(fedsi_random::Purpose::Batches, 0, 0)
}

/// Outputs under noise are distributed as if every weight had been drawn: around the exact ones, with the variance
/// `sigma^2 (|x|^2 + 1)` that independent weights and bias give, in a linear layer as in a convolution.
#[test]
fn noise_on_outputs_is_noise_on_weights() {
    use LayerSpec::{Flatten, Linear};
    let dense = Network::new(&[6], &[Linear(3)]).unwrap();
    // A head that adds nothing: it passes the convolution's only output on.
    let image = Network::new(&[1, 2, 3], &[conv(1, 2, 1, 0), Flatten, Linear(2)]).unwrap();
    let passed = [&numbers(1, 5)[..], &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]].concat();
    let input = numbers(2, 6);
    let patch = |columns: [usize; 4]| 1.0 + columns.iter().map(|&c| input[c] * input[c]).sum::<f64>();
    let whole = 1.0 + input.iter().map(|x| x * x).sum::<f64>();
    let cases = [
        ("linear", &dense, numbers(1, 21), dense.all_layers(), vec![whole; 3]),
        ("convolution", &image, passed, image.body_layers(), vec![patch([0, 1, 3, 4]), patch([1, 2, 4, 5])]),
    ];
    for (name, network, parameters, layers, variances) in cases {
        let (draws, deviation, mut rng) = (20_000, 0.3, stream(7));
        let mut tape = Tape::new(network, 1);
        tape.inputs_mut(network, 1).copy_from_slice(&input);
        let exact = tape.forward(network, &parameters).to_vec();
        let (mut sums, mut squares) = (vec![0.0; exact.len()], vec![0.0; exact.len()]);
        for _ in 0..draws {
            let noise = WeightNoise { layers: &layers, deviation, convolution_deviation: deviation };
            let noisy = tape.forward_noisy(network, &parameters, noise, &mut rng);
            for (index, (noisy, exact)) in noisy.iter().zip(&exact).enumerate() {
                sums[index] += noisy - exact;
                squares[index] += (noisy - exact) * (noisy - exact);
            }
        }
        for (index, variance) in variances.iter().enumerate() {
            let expected = deviation * deviation * variance;
            let (mean, found) = (sums[index] / draws as f64, squares[index] / draws as f64);
            assert!(mean.abs() < 4.0 * (expected / draws as f64).sqrt(), "{name} {index}: mean {mean}");
            assert!((found / expected - 1.0).abs() < 0.05, "{name} {index}: {found}, expected {expected}");
        }
    }
}

#[test]
fn frozen_layers_keep_their_bits_and_the_others_move() {
    for (name, network) in zoo() {
        let (body, head) = (network.layout().body(), network.layout().head());
        let start = single(&numbers(1, network.layout().len()));
        let inputs = single(&numbers(2, 8 * network.inputs()));
        let labels: Vec<u32> = (0..8).map(|row| row % network.outputs() as u32).collect();
        let train = |layers| {
            let mut parameters = start.clone();
            let mut trainer =
                Trainer::new(&network, layers, Loss::CrossEntropy, OptimizerSpec::adam(0.01), 8);
            let rows = [0, 1, 2, 3, 4, 5, 6, 7];
            trainer.step(&network, &mut parameters, &inputs, Targets::Classes(&labels), &rows);
            parameters
        };
        if network.outputs() == 1 {
            continue; // one class: no gradient
        }
        let (only_body, only_head) = (train(network.body_layers()), train(network.head_layer()));
        assert_eq!(only_body[head.clone()], start[head.clone()], "{name}: the frozen head moved");
        assert_eq!(only_head[body.clone()], start[body.clone()], "{name}: the frozen body moved");
        assert_ne!(only_head[head.clone()], start[head], "{name}: the head did not move");
        assert!(body.is_empty() || only_body[body.clone()] != start[body], "{name}: the body did not move");
    }
}

/// With a prior, the gradient is that of `loss + 1/2 sum weight (theta - mean)^2`, and a reset forgets it.
#[test]
fn a_prior_pulls_towards_its_mean() {
    for (name, network) in zoo() {
        let size = network.layout().len();
        let (start, mean) = (numbers(1, size), numbers(5, size));
        let weight: Vec<f64> = numbers(6, size).iter().map(|x| x * x).collect();
        let inputs = numbers(2, 3 * network.inputs());
        let labels: Vec<u32> = (0..3).map(|row| row % network.outputs() as u32).collect();
        let still = OptimizerSpec::Sgd { rate: 0.0, momentum: 0.0 };
        let mut trainer = Trainer::new(&network, network.all_layers(), Loss::CrossEntropy, still, 3);
        let gradient = |prior: bool, trainer: &mut Trainer<f64>| {
            if prior {
                trainer.set_prior(&mean, weight.iter().copied());
            }
            let (mut parameters, labels) = (start.clone(), Targets::Classes(&labels));
            let loss = trainer.step(&network, &mut parameters, &inputs, labels, &[0, 1, 2]);
            (loss, trainer.gradient().to_vec())
        };
        let (plain_loss, plain) = gradient(false, &mut trainer);
        let (loss, pulled) = gradient(true, &mut trainer);
        assert_eq!(loss, plain_loss, "{name}: the loss told is that of the data");
        for index in 0..size {
            let expected = plain[index] + weight[index] * (start[index] - mean[index]);
            assert!((pulled[index] - expected).abs() < 1e-12, "{name}: parameter {index}");
        }
        trainer.reset();
        assert_eq!(gradient(false, &mut trainer).1, plain, "{name}: after a reset");
    }
}

/// Training the head on features computed once is the same as training the head of the whole network.
#[test]
fn the_head_alone_is_the_head_of_the_whole() {
    for (name, network) in zoo() {
        let (parameters, inputs) = (numbers(1, network.layout().len()), numbers(2, 4 * network.inputs()));
        let mut tape = Tape::new(&network, 4);
        tape.inputs_mut(&network, 4).copy_from_slice(&inputs);
        let whole = tape.forward(&network, &parameters).to_vec();
        let features = tape.forward_body(&network, &parameters).to_vec();
        let head = network.head();
        let mut tape = Tape::new(&head, 4);
        tape.inputs_mut(&head, 4).copy_from_slice(&features);
        assert_eq!(tape.forward(&head, &parameters[network.layout().head()]), whole, "{name}");
    }
}

#[test]
fn the_papers_networks_have_the_papers_sizes() {
    use LayerSpec::{Flatten, Linear, MaxPool, Relu};
    let pool = MaxPool(fedsi_nn::PoolSpec::square(2));
    let mlp = Network::new(&[1, 28, 28], &[Flatten, Linear(100), Relu, Linear(10)]).unwrap();
    assert_eq!((mlp.layout().body().len(), mlp.layout().head().len()), (78_500, 1_010));
    let layers = [conv(6, 5, 1, 0), Relu, pool.clone(), conv(16, 5, 1, 0), Relu, pool, Flatten];
    let layers = [&layers[..], &[Linear(120), Relu, Linear(84), Relu, Linear(10)]].concat();
    let cnn = Network::new(&[3, 32, 32], &layers).unwrap();
    assert_eq!((cnn.layout().body().len(), cnn.layout().head().len()), (61_156, 850));
    let names: Vec<&str> = cnn.layout().tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[..4], ["0.weight", "0.bias", "3.weight", "3.bias"], "PyTorch's names");
    assert_eq!(cnn.layout().tensors()[2].shape, [16, 6, 5, 5]);
}

#[test]
fn initial_values_are_pytorchs_uniform() {
    let network = Network::new(&[400], &[LayerSpec::Linear(100), LayerSpec::Linear(2)]).unwrap();
    let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
    let parameters: Vec<f64> = network.initialise(&mut rng);
    let (first, second) = (&parameters[..40_100], &parameters[40_100..]);
    let spread = |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
    assert!(first.iter().all(|x| x.abs() <= 0.05) && second.iter().all(|x| x.abs() <= 0.1));
    assert!((spread(first) - 0.05 / 3_f64.sqrt()).abs() < 5e-4, "not uniform: {}", spread(first));
    assert!((spread(second) - 0.1 / 3_f64.sqrt()).abs() < 1e-2, "not uniform: {}", spread(second));
}

#[test]
fn a_list_of_layers_that_does_not_fit_is_refused_with_a_reason() {
    use LayerSpec::{Flatten, Linear, MaxPool, Relu};
    let refused =
        |input: &[usize], layers: &[LayerSpec]| Network::new(input, layers).unwrap_err().to_string();
    assert!(refused(&[3, 8, 8], &[Linear(3)]).contains("put `flatten` before it"));
    assert!(refused(&[8], &[conv(3, 3, 1, 0), Flatten, Linear(2)]).contains("[channels, height, width]"));
    assert!(refused(&[1, 4, 4], &[conv(3, 5, 1, 0), Flatten, Linear(2)]).contains("larger than the image"));
    assert!(refused(&[8], &[Linear(3), Relu]).contains("must be `linear`"));
    assert!(refused(&[8], &[Linear(0), Linear(2)]).contains("at least one output"));
    let pool = MaxPool(fedsi_nn::PoolSpec { window: 2, stride: 0 });
    assert!(refused(&[1, 4, 4], &[pool, Flatten, Linear(2)]).contains("at least 1"));
    assert!(refused(&[8], &[]).contains("at least one layer"));
    let huge = Network::new(&[1 << 20], &[Linear(1 << 40), Linear(2)]);
    assert!(matches!(huge, Err(NetworkError::TooLarge { layer: 0 })));
    let wide = Network::new(&[1, 28, 28], &[conv(1, 1000, 1, 999), Flatten, Linear(2)]);
    assert!(matches!(wide, Err(NetworkError::TooLarge { layer: 0 })), "its scratch space is 8 TB");
    assert!(
        refused(&[1, 4, 4], &[conv(1, usize::MAX, 1, usize::MAX - 1), Flatten, Linear(2)]).contains("1024")
    );
    let huge = Network::new(&[usize::MAX, 2, 2], &[Flatten, Linear(2)]);
    assert!(matches!(huge, Err(NetworkError::TooLarge { .. })));
}

#[test]
fn layers_are_written_as_they_are_read() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Model {
        layers: Vec<LayerSpec>,
    }
    let text = r#"layers = [{ conv = { out = 6, kernel = 5, padding = 2 } }, "relu", { maxpool = 2 },
        { avgpool = { window = 3, stride = 2 } }, "flatten", { leaky-relu = 0.1 }, { linear = 10 }]"#;
    let model: Model = toml::from_str(text).unwrap();
    let again: Model = toml::from_str(&toml::to_string(&model).unwrap()).unwrap();
    assert_eq!(model, again);
}
