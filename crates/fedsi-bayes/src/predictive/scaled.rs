//! Closed forms that scale the logits down: the more variance, the nearer to uniform.
//!
//! Both rest on the probit approximation of a logistic's mean, `E sigmoid(a) ~ sigmoid(m / sqrt(1 + pi/8 s))`
//! for `a ~ N(m, s)`.

use std::f64::consts::PI;

use fedsi_nn::softmax;

use super::at_least_zero;

/// `sqrt(1 + pi/8 s)`.
fn damping(variance: f64) -> f64 {
    (1.0 + PI / 8.0 * at_least_zero(variance)).sqrt()
}

/// Each logit by its own variance: `softmax(m_k / sqrt(1 + pi/8 S_kk))`.
pub(super) fn probit(mean: &[f64], covariance: &[f64], row: &mut [f64]) {
    let classes = mean.len();
    for (k, (value, logit)) in row.iter_mut().zip(mean).enumerate() {
        *value = logit / damping(covariance[k * classes + k]);
    }
    softmax(row, classes);
}

/// All logits by one scalar: `softmax(m / sqrt(1 + pi/8 s))`, s as in [`difference_variance`].
pub(super) fn differences(mean: &[f64], covariance: &[f64], row: &mut [f64]) {
    let damping = damping(difference_variance(mean, covariance));
    for (value, logit) in row.iter_mut().zip(mean) {
        *value = logit / damping;
    }
    softmax(row, mean.len());
}

/// The mean variance of `f_c - f_j`, c the top class, over the other classes j weighted by their probability:
/// those that matter.
///
/// A softmax sees differences of logits alone, so what all logits have in common cancels here.
fn difference_variance(mean: &[f64], covariance: &[f64]) -> f64 {
    let classes = mean.len();
    let mut top = 0;
    for (k, logit) in mean.iter().enumerate() {
        if *logit > mean[top] {
            top = k;
        }
    }
    let others = || mean.iter().enumerate().filter(|(j, _)| *j != top);
    // Weights relative to the most probable of them: they cannot all vanish, however confident the model is of c.
    let likeliest = others().fold(f64::NEG_INFINITY, |best, (_, logit)| best.max(*logit));
    let (mut weighted, mut total) = (0.0, 0.0);
    for (j, logit) in others() {
        let weight = (logit - likeliest).exp();
        let shared = covariance[top * classes + j];
        let difference = (covariance[top * classes + top] - shared) + (covariance[j * classes + j] - shared);
        weighted += weight * at_least_zero(difference);
        total += weight;
    }
    // A single class has no other.
    if total > 0.0 { weighted / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_classes_are_weighted_by_their_probability() {
        let covariance = [4.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0];
        // Var(f_0 - f_1) = 4 + 2 - 2 = 4, Var(f_0 - f_2) = 7; weights 1 : e^-1.
        let e = (-1.0_f64).exp();
        let expected = (4.0 + 7.0 * e) / (1.0 + e);
        assert!((difference_variance(&[5.0, 1.0, 0.0], &covariance) - expected).abs() < 1e-14);
        // The same where the softmax of both other classes underflows.
        assert!((difference_variance(&[5000.0, 1.0, 0.0], &covariance) - expected).abs() < 1e-14);
        // Ties: the lowest class is the top one, Var(f_0 - f_1) = 4 and Var(f_0 - f_2) = 7 alike.
        assert!((difference_variance(&[0.0; 3], &covariance) - 5.5).abs() < 1e-14);
        assert_eq!(difference_variance(&[1.0], &[9.0]), 0.0);
    }

    #[test]
    fn a_difference_below_zero_counts_as_none() {
        assert_eq!(difference_variance(&[1.0, 0.0], &[1.0, 1.1, 1.1, 1.0]), 0.0);
    }
}
