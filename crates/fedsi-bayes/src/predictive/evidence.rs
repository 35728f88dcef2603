//! The likelihood of data, and its marginal under a prior.

use std::f64::consts::TAU;

use fedsi_nn::Targets;

use super::log_sum_exp::log_sum_exp;
use crate::likelihood::Likelihood;

/// The log likelihood of targets given a network's outputs (rows of `width`), summed over samples: of labels
/// `sum_n log softmax(f_n)[y_n]`, of values the log density of `N(f_n, noise^2 I)`, constants included.
///
/// Summed in the order of the samples. NaN where targets are not of the likelihood's kind, or a label is not a
/// class.
#[must_use]
pub fn log_likelihood(
    likelihood: &Likelihood,
    outputs: &[f64],
    width: usize,
    targets: Targets<'_, f64>,
) -> f64 {
    let rows = outputs.chunks_exact(width.max(1));
    match (likelihood, targets) {
        (Likelihood::Categorical, Targets::Classes(labels)) => {
            rows.zip(labels).map(|(logits, &label)| log_softmax(logits, label as usize)).sum()
        }
        (Likelihood::Gaussian { noise }, Targets::Values(values)) => {
            let density = |((mean, value), noise): ((&f64, &f64), &f64)| {
                -0.5 * ((value - mean) / noise).powi(2) - noise.ln() - 0.5 * TAU.ln()
            };
            outputs.iter().zip(values).zip(noise.iter().cycle()).map(density).sum()
        }
        (Likelihood::Categorical, Targets::Values(_))
        | (Likelihood::Gaussian { .. }, Targets::Classes(_)) => f64::NAN,
    }
}

/// `f_y - log sum_k exp f_k`.
fn log_softmax(logits: &[f64], label: usize) -> f64 {
    let (top, rest) = log_sum_exp(logits.iter().copied());
    logits.get(label).map_or(f64::NAN, |logit| (logit - top) - rest)
}

/// Laplace's approximation of the log probability of the data under a model with this prior; the higher, the
/// better the prior fits:
///
/// `log p(D) ~ log p(D | theta) - 1/2 (log det P - sum_s log(1/g_s) + (theta - mu)' diag(1/g) (theta - mu))`
///
/// over the subnetwork's parameters s, with precision `P = H + diag(1/g)` and prior `N(mu, diag(g))`.
/// `log_determinant_ratio` is `log det P - sum_s log(1/g_s)`, `prior_quadratic` the last term.
#[must_use]
pub fn log_marginal_likelihood(log_likelihood: f64, log_determinant_ratio: f64, prior_quadratic: f64) -> f64 {
    log_likelihood - 0.5 * (log_determinant_ratio + prior_quadratic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihoods_worked_by_hand() {
        let logits = [0.0, 0.0, 3.0_f64.ln(), 0.0];
        let found = log_likelihood(&Likelihood::Categorical, &logits, 2, Targets::Classes(&[1, 0]));
        assert!((found - (0.5_f64.ln() + 0.75_f64.ln())).abs() < 1e-15);
        let sure = log_likelihood(&Likelihood::Categorical, &[1e4, 0.0], 2, Targets::Classes(&[1]));
        assert_eq!(sure, -1e4, "no logarithm of an underflown probability");

        let gaussian = &Likelihood::Gaussian { noise: vec![2.0; 2] };
        let found = log_likelihood(gaussian, &[1.0, 0.0], 2, Targets::Values(&[3.0, 0.0]));
        assert!((found - (-0.5 - 2.0 * (2.0_f64.ln() + 0.5 * TAU.ln()))).abs() < 1e-15);
    }

    #[test]
    fn targets_that_do_not_fit_have_no_likelihood() {
        assert!(log_likelihood(&Likelihood::Categorical, &[1.0], 1, Targets::Values(&[1.0])).is_nan());
        assert!(
            log_likelihood(&Likelihood::Gaussian { noise: vec![1.0; 2] }, &[1.0], 1, Targets::Classes(&[0]))
                .is_nan()
        );
        assert!(log_likelihood(&Likelihood::Categorical, &[1.0, 2.0], 2, Targets::Classes(&[2])).is_nan());
        assert_eq!(log_likelihood(&Likelihood::Categorical, &[], 3, Targets::Classes(&[])), 0.0);
    }

    /// One linear parameter with Gaussian noise: Laplace is exact there, and y ~ N(x mu, noise^2 + g x^2).
    #[test]
    fn the_marginal_likelihood_is_exact_for_a_linear_model() {
        let (x, y, mu, g, noise) = (1.5_f64, 2.0, 0.3, 0.7, 0.4_f64);
        let precision = x * x / (noise * noise) + 1.0 / g;
        let theta = (x * y / (noise * noise) + mu / g) / precision;
        let fit = log_likelihood(
            &Likelihood::Gaussian { noise: vec![noise] },
            &[x * theta],
            1,
            Targets::Values(&[y]),
        );
        let quadratic = (theta - mu) * (theta - mu) / g;
        let found = log_marginal_likelihood(fit, precision.ln() - (1.0 / g).ln(), quadratic);
        let deviation = (noise * noise + g * x * x).sqrt();
        let exact = log_likelihood(
            &Likelihood::Gaussian { noise: vec![deviation] },
            &[x * mu],
            1,
            Targets::Values(&[y]),
        );
        assert!((found - exact).abs() < 1e-13, "{found} {exact}");
    }
}
