//! Variances of the outputs.

use super::at_least_zero;
use crate::outputs::OutputDistribution;

/// The variance of an observation of each output, n x O: that of the network's output plus that of the noise.
/// `noise` holds standard deviations: one an output, or a single one for all.
///
/// # Panics
/// If `noise` has neither one value nor one an output.
#[must_use]
pub fn regression_variance(outputs: &OutputDistribution, noise: &[f64]) -> Vec<f64> {
    let width = outputs.outputs;
    assert!(
        noise.len() == 1 || noise.len() == width,
        "noise: expected 1 value or one for each of {width} outputs, found {}",
        noise.len()
    );
    matrices(outputs)
        .flat_map(|covariance| covariance.iter().step_by(width + 1).zip(noise.iter().cycle()))
        .map(|(variance, noise)| at_least_zero(*variance) + noise * noise)
        .collect()
}

/// How uncertain the model is of each sample, n values: the trace of the logits' covariance without their common
/// mode, `tr(C S C)` with `C = I - 11'/O`.
///
/// A softmax does not depend on the common mode. Made for classification, as a score for samples unlike the training
/// data; a single output is nothing but common mode, and has spread 0.
#[must_use]
pub fn spread(outputs: &OutputDistribution) -> Vec<f64> {
    let width = outputs.outputs;
    matrices(outputs)
        .map(|covariance| {
            let trace: f64 = covariance.iter().step_by(width + 1).sum();
            let total: f64 = covariance.iter().sum();
            at_least_zero(trace - total / width as f64)
        })
        .collect()
}

/// The covariance of each sample.
fn matrices(outputs: &OutputDistribution) -> impl Iterator<Item = &[f64]> {
    // Without outputs there are no covariances either: any size of chunk gives none.
    outputs.covariance.chunks_exact((outputs.outputs * outputs.outputs).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> OutputDistribution {
        let covariance = vec![1.0, 0.5, 0.5, 2.0, 3.0, 3.0, 3.0, 3.0];
        OutputDistribution { outputs: 2, mean: vec![0.0; 4], covariance }
    }

    #[test]
    fn noise_is_added_to_the_diagonal() {
        assert_eq!(regression_variance(&outputs(), &[0.5]), [1.25, 2.25, 3.25, 3.25]);
        assert_eq!(regression_variance(&outputs(), &[0.0, 2.0]), [1.0, 6.0, 3.0, 7.0]);
        let below = OutputDistribution { outputs: 1, mean: vec![0.0], covariance: vec![-1e-18] };
        assert_eq!(regression_variance(&below, &[0.1]), [0.1 * 0.1]);
        assert!(
            regression_variance(&OutputDistribution { outputs: 3, ..Default::default() }, &[1.0]).is_empty()
        );
    }

    #[test]
    fn spread_is_blind_to_the_common_mode() {
        // tr S - 1'S1/2 = 3 - 4/2.
        assert_eq!(spread(&outputs()), [1.0, 0.0]);
        let mut shifted = outputs();
        shifted.covariance.iter_mut().for_each(|value| *value += 8.0);
        assert_eq!(spread(&shifted), [1.0, 0.0]);
        assert_eq!(spread(&OutputDistribution { outputs: 1, mean: vec![1.0], covariance: vec![5.0] }), [0.0]);
        assert!(spread(&OutputDistribution::default()).is_empty());
    }
}
