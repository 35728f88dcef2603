//! Langevin sampling where the posterior is known, and one body under several heads.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_nn::{Langevin, LangevinSpec, LayerSpec, Loss, Network, OptimizerSpec, Targets, Trainer};
use fedsi_random::{Purpose, Streams};
use support::{numbers, relative_error, zoo};

/// One weight and one bias on inputs whose columns are orthogonal: two directions with known curvature and mean. The
/// chain must have the posterior's mean and the variance `1 / (c (1 - h c / 4))` of unadjusted steps, for small steps
/// the posterior's own.
#[test]
fn a_chain_has_the_stationary_distribution_of_a_conjugate_case() {
    let network = Network::new(&[1], &[LayerSpec::Linear(1)]).unwrap();
    let inputs: Vec<f64> = vec![-1.0, 1.0, -2.0, 2.0, 0.5, -0.5]; // they sum to 0
    let targets: Vec<f64> = vec![-0.4, 1.3, -1.9, 2.0, 0.9, 0.2];
    let (weight, prior_variance) = (4.0, 0.5);
    let squares: f64 = inputs.iter().map(|x| x * x).sum();
    let curvature = [weight * squares + 1.0 / prior_variance, weight * 6.0 + 1.0 / prior_variance];
    let products: f64 = inputs.iter().zip(&targets).map(|(x, y)| x * y).sum();
    let mean = [weight * products / curvature[0], weight * targets.iter().sum::<f64>() / curvature[1]];
    for step in [0.05, 0.01] {
        let spec = LangevinSpec { step, prior_variance, weight };
        // Four samples at a time: the sum over all must not notice.
        let mut chain = Langevin::new(&network, Loss::Gaussian { noise: 1.0 }, 4);
        let mut rng = Streams::new(3).stream(Purpose::Batches, 0, 0);
        let mut parameters = vec![0.0; 2];
        let draws = 400_000;
        let (mut sums, mut seconds) = ([0.0; 2], [0.0; 2]);
        for draw in 0..draws + 1000 {
            chain.step(&network, &mut parameters, &inputs, Targets::Values(&targets), spec, &mut rng);
            if draw >= 1000 {
                for index in 0..2 {
                    sums[index] += parameters[index];
                    seconds[index] += (parameters[index] - mean[index]).powi(2);
                }
            }
        }
        for index in 0..2 {
            let expected = 1.0 / (curvature[index] * (1.0 - step * curvature[index] / 4.0));
            let (found, variance) = (sums[index] / f64::from(draws), seconds[index] / f64::from(draws));
            let gap = (found - mean[index]).abs() / expected.sqrt();
            assert!(gap < 0.02, "step {step}, direction {index}: mean {found}, expected {}", mean[index]);
            let ratio = variance / expected;
            assert!(
                (ratio - 1.0).abs() < 0.02,
                "step {step}, direction {index}: {variance}, expected {expected}"
            );
        }
    }
}

/// The gradient in the body is the mean of those under each head, and so is the loss.
#[test]
fn a_body_under_several_heads_learns_their_mean() {
    for (name, network) in zoo().into_iter().filter(|(_, network)| !network.layout().body().is_empty()) {
        let (body, head) = (network.layout().body(), network.layout().head());
        let parameters = numbers(1, network.layout().len());
        let heads = numbers(5, 3 * head.len());
        let inputs = numbers(2, 4 * network.inputs());
        let labels: Vec<u32> = (0..4).map(|row| row % network.outputs() as u32).collect();
        let (rows, still) = ([2, 0, 3], OptimizerSpec::Sgd { rate: 0.0, momentum: 0.0 });
        let (mut loss, mut gradient) = (0.0, vec![0.0; body.len()]);
        for one in heads.chunks_exact(head.len()) {
            let mut all = [&parameters[body.clone()], one].concat();
            let mut trainer = Trainer::new(&network, network.body_layers(), Loss::CrossEntropy, still, 3);
            loss += trainer.step(&network, &mut all, &inputs, Targets::Classes(&labels), &rows) / 3.0;
            for (sum, slope) in gradient.iter_mut().zip(&trainer.gradient()[body.clone()]) {
                *sum += slope / 3.0;
            }
        }
        let wide = network.under_heads(3).unwrap();
        let mut all = [&parameters[body.clone()], &network.join_heads(&heads)].concat();
        let mut trainer = Trainer::new(&wide, wide.body_layers(), Loss::CrossEntropy, still, 3).with_heads(3);
        let found = trainer.step(&wide, &mut all, &inputs, Targets::Classes(&labels), &rows);
        assert!((found - loss).abs() < 1e-12, "{name}: loss {found}, expected {loss}");
        if network.outputs() > 1 {
            let error = relative_error(&trainer.gradient()[body], &gradient);
            assert!(error < 1e-12, "{name}: the body's gradient is off by {error:e}");
        }
    }
}
