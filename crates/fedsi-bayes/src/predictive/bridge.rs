//! The Laplace bridge: the Dirichlet whose Laplace approximation in the logits is the given Gaussian.

use fedsi_nn::softmax;

use super::log_sum_exp::log_sum_exp;

/// A variance (absolute, and as a part of the sample's largest) below which a logit counts as certain: its
/// Dirichlet would have more than 1e10 observations.
const CERTAIN: f64 = 1e-10;

/// The mean `alpha / sum(alpha)` of the Dirichlet of Hobbhahn, Kristiadi and Hennig (2022),
///
/// `alpha_k = (1 - 2/K + exp(m_k)/K^2 sum_l exp(-m_l)) / S_kk`,
///
/// with m and S first conditioned on logits that sum to zero, where a Dirichlet's lie:
/// `m - S1 (1'm)/(1'S1)`, `S - S11'S/(1'S1)`. As laplace-torch has it, and finite where that is not:
/// - no variance in the sum of the logits: they are centred instead, which is the limit;
/// - a logit that is certain has an infinite alpha, and leaves the others undetermined: `softmax(m)`;
/// - everything is computed on a logarithmic scale, so no gap between logits overflows.
pub(super) fn bridge(mean: &[f64], covariance: &[f64], row: &mut [f64]) {
    let alphas_exist = log_alphas(mean, covariance, row);
    if !alphas_exist {
        row.copy_from_slice(mean);
    }
    softmax(row, mean.len());
}

/// Writes `ln alpha_k`, up to a constant, to `row`; false where there is none.
fn log_alphas(mean: &[f64], covariance: &[f64], row: &mut [f64]) -> bool {
    let classes = mean.len();
    let variance = |k: usize| covariance[k * classes + k];
    let largest = (0..classes).fold(0.0, |largest: f64, k| largest.max(variance(k)));
    // A single class has no Dirichlet (its alpha is 0/S).
    if classes < 2 || largest <= CERTAIN {
        return false;
    }
    // In units of the largest variance, which cancels in the mean: so nothing overflows.
    let row_sum = |k: usize| covariance[k * classes..][..classes].iter().map(|v| v / largest).sum::<f64>();
    let total: f64 = (0..classes).map(row_sum).sum();
    let trace: f64 = (0..classes).map(|k| variance(k) / largest).sum();
    let sum_varies = total > CERTAIN * classes as f64 * trace;
    let sum: f64 = mean.iter().sum();
    let share = |k: usize| if sum_varies { row_sum(k) / total } else { 1.0 / classes as f64 };

    for (k, (value, logit)) in row.iter_mut().zip(mean).enumerate() {
        *value = logit - share(k) * sum;
    }
    let (top, rest) = log_sum_exp(row.iter().map(|logit| -logit));
    let log_inverses = top + rest;
    let k = classes as f64;
    let constant = (1.0 - 2.0 / k).ln();
    for (class, value) in row.iter_mut().enumerate() {
        let removed = if sum_varies { row_sum(class) * share(class) } else { 0.0 };
        let conditional = variance(class) / largest - removed;
        if conditional <= CERTAIN {
            return false;
        }
        let exponential = *value + log_inverses - 2.0 * k.ln();
        let (top, rest) = log_sum_exp([constant, exponential].into_iter());
        *value = (top + rest) - conditional.ln();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mean_of_bridge(mean: &[f64], covariance: &[f64]) -> Vec<f64> {
        let mut row = vec![0.0; mean.len()];
        bridge(mean, covariance, &mut row);
        row
    }

    /// The Gaussian that the bridge gives a Dirichlet: the inverse of what this module computes.
    fn gaussian_of(alpha: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let k = alpha.len() as f64;
        let log_mean = alpha.iter().map(|a| a.ln()).sum::<f64>() / k;
        let inverse = alpha.iter().map(|a| 1.0 / a).sum::<f64>();
        let mean = alpha.iter().map(|a| a.ln() - log_mean).collect();
        let covariance = (0..alpha.len() * alpha.len())
            .map(|entry| {
                let (i, j) = (entry / alpha.len(), entry % alpha.len());
                let own = if i == j { 1.0 / alpha[i] } else { 0.0 };
                own - (1.0 / alpha[i] + 1.0 / alpha[j] - inverse / k) / k
            })
            .collect();
        (mean, covariance)
    }

    proptest! {
        /// A round trip: of rank K - 1, and with a common mode added.
        #[test]
        fn a_dirichlet_is_recovered(
            alpha in prop::collection::vec(0.05..50.0_f64, 2..8),
            common in prop_oneof![Just(0.0), 0.01..10.0_f64],
            shift in -5.0..5.0_f64,
        ) {
            let (mut mean, mut covariance) = gaussian_of(&alpha);
            mean.iter_mut().for_each(|m| *m += shift);
            covariance.iter_mut().for_each(|s| *s += common);
            let sum: f64 = alpha.iter().sum();
            for (found, a) in mean_of_bridge(&mean, &covariance).iter().zip(&alpha) {
                prop_assert!((found - a / sum).abs() < 1e-9, "{found} {}", a / sum);
            }
        }

        /// The formula, written down as it stands.
        #[test]
        fn it_is_laplace_torchs_formula(
            mean in prop::collection::vec(-4.0..4.0_f64, 3),
            b in prop::collection::vec(-1.0..1.0_f64, 9),
        ) {
            let s = |i: usize, j: usize| {
                (0..3).map(|k| b[3 * i + k] * b[3 * j + k]).sum::<f64>() + if i == j { 0.3 } else { 0.0 }
            };
            let covariance: Vec<f64> = (0..9).map(|entry| s(entry / 3, entry % 3)).collect();
            let row = |i| s(i, 0) + s(i, 1) + s(i, 2);
            let total = row(0) + row(1) + row(2);
            let sum: f64 = mean.iter().sum();
            let m: Vec<f64> = (0..3).map(|i| mean[i] - row(i) * sum / total).collect();
            let inverses: f64 = m.iter().map(|m| (-m).exp()).sum();
            let alpha: Vec<f64> = (0..3)
                .map(|i| (1.0 - 2.0 / 3.0 + m[i].exp() / 9.0 * inverses) / (s(i, i) - row(i) * row(i) / total))
                .collect();
            let of: f64 = alpha.iter().sum();
            for (found, a) in mean_of_bridge(&mean, &covariance).iter().zip(&alpha) {
                prop_assert!((found - a / of).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn certain_logits_fall_back_to_the_softmax() {
        let mut expected = [1.0, 0.0, -1.0];
        softmax(&mut expected, 3);
        let mut one_certain = [0.0; 9];
        (one_certain[0], one_certain[4]) = (1.0, 2.0);
        for covariance in [[0.0; 9], [1e-14; 9], [3.0; 9], one_certain] {
            assert_eq!(mean_of_bridge(&[1.0, 0.0, -1.0], &covariance), expected, "{covariance:?}");
        }
    }

    #[test]
    fn no_gap_and_no_variance_overflows() {
        let covariance = [1e300, 0.0, 0.0, 0.0, 2e300, 0.0, 0.0, 0.0, 1e300];
        let row = mean_of_bridge(&[3000.0, -3000.0, 0.0], &covariance);
        assert!(row.iter().all(|p| p.is_finite()), "{row:?}");
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row[0] > 0.999, "{row:?}");
    }
}
