//! Whether a chain of samples mixes.

use serde::{Deserialize, Serialize};

/// How well the samples that a personal model predicts with stand for what they are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Split R-hat, which compares the first half of the samples with the second: near 1 where both are of the same
    /// distribution. The value that nineteen in twenty parameters stay below.
    pub r_hat: f64,
    /// Correlation of a sample with the one before it, the median over parameters: 0 where each is a new draw.
    pub correlation: f64,
}

impl ChainSummary {
    /// Of samples of `size` parameters each, one after another in the order of the chain; none of fewer than four. Cost: a
    /// few passes over them.
    pub(super) fn of(samples: &[f32], size: usize) -> Option<Self> {
        let count = samples.len().checked_div(size)?;
        if count < 4 {
            return None;
        }
        let column = |index: usize| samples.iter().skip(index).step_by(size).map(|&value| f64::from(value));
        let (mut r_hats, mut correlations): (Vec<f64>, Vec<f64>) =
            (0..size).map(|index| of_parameter(&column(index).collect::<Vec<_>>())).unzip();
        Some(Self { r_hat: quantile(&mut r_hats, 0.95), correlation: quantile(&mut correlations, 0.5) })
    }
}

/// No chain is said to be worse: files hold finite numbers.
const LARGEST: f64 = 1e3;

/// Split R-hat, and the correlation of neighbours.
fn of_parameter(samples: &[f64]) -> (f64, f64) {
    let half = samples.len() / 2;
    let (first, second) = (moments(&samples[..half]), moments(&samples[samples.len() - half..]));
    let within = 0.5 * (first.1 + second.1);
    let between = 0.5 * (first.0 - second.0).powi(2);
    let length = half as f64;
    let (mean, variance) = moments(samples);
    let products = samples.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    // A parameter that never moves has been nowhere else: not mixed at all.
    if within <= 0.0 {
        return (LARGEST, 1.0);
    }
    let r_hat = ((length - 1.0) / length + between / within).sqrt().min(LARGEST);
    (r_hat, products / ((samples.len() - 1) as f64 * variance))
}

/// Mean and variance.
fn moments(samples: &[f64]) -> (f64, f64) {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let squares = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
    (mean, squares / (samples.len() - 1) as f64)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get((share * values.len() as f64) as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_random::{Purpose, Streams};
    use rand_distr::{Distribution as _, StandardNormal};

    /// A chain with this correlation of neighbours, of 200 parameters.
    fn chain(correlation: f32) -> ChainSummary {
        let mut rng = Streams::new(1).stream(Purpose::PriorDraws, 0, 0);
        let mut draw = || -> Vec<f32> { (0..200).map(|_| StandardNormal.sample(&mut rng)).collect() };
        let mut state = draw();
        let mut samples = Vec::new();
        for _ in 0..400 {
            let noise = (1.0 - correlation * correlation).sqrt();
            state = state.iter().zip(draw()).map(|(old, new)| correlation * old + noise * new).collect();
            samples.extend_from_slice(&state);
        }
        ChainSummary::of(&samples, 200).unwrap()
    }

    #[test]
    fn a_chain_that_mixes_is_told_from_one_that_does_not() {
        let mixed = chain(0.0);
        assert!(mixed.r_hat < 1.03 && mixed.correlation.abs() < 0.03, "{mixed:?}");
        let slow = chain(0.99);
        assert!(slow.r_hat > 1.5 && slow.correlation > 0.9, "{slow:?}");
    }

    #[test]
    fn too_few_samples_say_nothing_and_a_standing_chain_does() {
        assert_eq!(ChainSummary::of(&[1.0, 2.0, 3.0], 1), None);
        assert_eq!(ChainSummary::of(&[], 0), None);
        assert_eq!(ChainSummary::of(&[1.0; 8], 2).unwrap().correlation, 1.0);
    }
}
