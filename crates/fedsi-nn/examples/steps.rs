//! One training step of the paper's MLP (784-100-10, batch 50, Adam), deterministic beside mean-field: the best of many,
//! in turns. `cargo run --release -p fedsi-nn --example steps`

#![allow(clippy::print_stdout)]

use std::time::Instant;

use fedsi_nn::{
    LayerSpec, Loss, MeanField, Network, NetworkError, OptimizerSpec, Targets, Trainer, VariationalTrainer,
};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

const SAMPLES: usize = 250;
const BATCH: usize = 50;
const TURNS: usize = 300;
/// Steps timed together.
const STEPS: usize = 5;

fn main() -> Result<(), NetworkError> {
    let network = Network::new(&[784], &[LayerSpec::Linear(100), LayerSpec::Relu, LayerSpec::Linear(10)])?;
    let mut rng = Streams::new(1).stream(Purpose::Initialisation, 0, 0);
    let mut parameters: Vec<f32> = network.initialise(&mut rng);
    let inputs: Vec<f32> = (0..SAMPLES * 784).map(|_| 2.0 * rng.random::<f32>() - 1.0).collect();
    let labels: Vec<u32> = (0..SAMPLES as u32).map(|row| row % 10).collect();
    let rows: Vec<u32> = (0..SAMPLES as u32).collect();
    let (targets, adam) = (Targets::Classes(&labels), OptimizerSpec::adam(1e-3));
    let mut point = Trainer::new(&network, network.all_layers(), Loss::CrossEntropy, adam, BATCH);
    let mut variational =
        VariationalTrainer::new(&network, network.all_layers(), Loss::CrossEntropy, adam, BATCH);
    let start = MeanField { mean: parameters.clone(), deviation: vec![0.05; parameters.len()] };
    let mut best = [f64::INFINITY; 3];
    for _ in 0..TURNS {
        let mut time = |turn: usize, step: &mut dyn FnMut(&[u32])| {
            let begun = Instant::now();
            for index in 0..STEPS {
                step(&rows[BATCH * (index % (SAMPLES / BATCH))..][..BATCH]);
            }
            best[turn] = best[turn].min(begun.elapsed().as_secs_f64() / STEPS as f64);
        };
        point.reset();
        time(0, &mut |rows| {
            point.step(&network, &mut parameters, &inputs, targets, rows);
        });
        for (turn, follows) in [(1, None), (2, Some(1))] {
            variational.begin(&start, &start, 10.0 / SAMPLES as f64, follows);
            time(turn, &mut |rows| {
                variational.step(&network, &inputs, targets, rows, &mut rng);
            });
        }
    }
    let names = ["deterministic", "mean-field", "mean-field, moving reference"];
    for (name, seconds) in names.iter().zip(best) {
        println!("{name:<28} {:.3} ms, {:.2} times the deterministic step", 1e3 * seconds, seconds / best[0]);
    }
    Ok(())
}
