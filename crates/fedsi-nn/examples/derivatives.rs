//! Derivatives of all outputs in a CNN's parameters, sample by sample, as posteriors need them (the CIFAR-10 network, f64):
//! all outputs of a sample at once beside one backward pass an output and one gradient an image, the best of many, in turns.
//! `cargo run --release -p fedsi-nn --example derivatives`

#![allow(clippy::print_stdout)]

use std::time::Instant;

use fedsi_nn::{
    ConvSpec, GradientSink, LayerSpec, Network, NetworkError, ParameterGradient, PoolSpec, Tape, jacobian,
};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

const SAMPLES: usize = 8;
const TURNS: usize = 60;

fn main() -> Result<(), NetworkError> {
    use LayerSpec::{Conv, Flatten, Linear, MaxPool, Relu};
    let conv = |out| Conv(ConvSpec { out, kernel: 5, stride: 1, padding: 0 });
    let pool = || MaxPool(PoolSpec::square(2));
    let body = [conv(6), Relu, pool(), conv(16), Relu, pool(), Flatten];
    let network = [&body[..], &[Linear(120), Relu, Linear(84), Relu, Linear(10)]].concat();
    let network = Network::new(&[3, 32, 32], &network)?;
    let mut rng = Streams::new(1).stream(Purpose::Initialisation, 0, 0);
    let parameters: Vec<f64> = network.initialise(&mut rng);
    let inputs: Vec<f64> = (0..SAMPLES * network.inputs()).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect();
    let convolutions: Vec<usize> = (0..network.layout().len())
        .filter(|&index| [0, 3].iter().any(|&layer| network.layout().of_layer(layer).contains(&index)))
        .collect();
    let few: Vec<usize> = convolutions.iter().copied().step_by(14).collect();
    let mut tape = Tape::new(&network, SAMPLES);
    tape.inputs_mut(&network, SAMPLES).copy_from_slice(&inputs);
    tape.forward(&network, &parameters);

    let mut single = OneByOne { gradient: ParameterGradient::new(&network), sum: 0.0 };
    let layers = network.layers_where(|layer| layer < 4);
    let mut best = [f64::INFINITY; 3];
    for _ in 0..TURNS {
        let mut time = |turn: usize, work: &mut dyn FnMut()| {
            let begun = Instant::now();
            work();
            best[turn] = best[turn].min(begun.elapsed().as_secs_f64() / SAMPLES as f64);
        };
        time(0, &mut || {
            for output in 0..network.outputs() {
                let (_, gradient) = tape.outputs_and_gradient(&network);
                gradient.fill(0.0);
                gradient.iter_mut().skip(output).step_by(network.outputs()).for_each(|value| *value = 1.0);
                tape.backward(&network, &parameters, &layers, &mut single);
            }
        });
        for (turn, chosen) in [(1, &convolutions), (2, &few)] {
            time(turn, &mut || {
                std::hint::black_box(jacobian::columns(&mut tape, &network, &parameters, chosen));
            });
        }
    }
    std::hint::black_box(single.sum);
    let names = ["one by one", "all outputs at once", "all outputs at once, 7% of the parameters"];
    for (name, seconds) in names.iter().zip(best) {
        println!("{name:<42} {:.3} ms a sample, {:.1} times as fast", 1e3 * seconds, best[0] / seconds);
    }
    Ok(())
}

/// The gradient of every image by itself.
struct OneByOne {
    gradient: ParameterGradient<f64>,
    sum: f64,
}

impl GradientSink<f64> for OneByOne {
    fn layer(&mut self, network: &Network, layer: usize, inputs: &[f64], slopes: &[f64], batch: usize) {
        let images = inputs.chunks_exact(inputs.len() / batch).zip(slopes.chunks_exact(slopes.len() / batch));
        for (image, slopes) in images {
            self.gradient.layer(network, layer, image, slopes, 1);
            self.sum += self.gradient.values()[network.layout().of_layer(layer).start];
        }
    }
}
