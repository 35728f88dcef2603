//! The likelihood of observations given outputs, and its curvature.

use fedsi_nn::softmax;

use crate::error::PosteriorError;

/// What the network's outputs mean.
///
/// The curvature of the negative log likelihood in the outputs of one sample is a matrix `Lambda`; everything
/// else needs a factor of it, `Lambda = F' F`, with as few rows as there can be.
#[derive(Clone, Debug, PartialEq)]
pub enum Likelihood {
    /// Outputs are logits of classes: `Lambda = diag(p) - p p'`, of rank one less than the classes.
    Categorical,
    /// Outputs are means of independent normal observations: `Lambda = diag(1 / noise^2)`.
    Gaussian {
        /// Standard deviation of the observation noise, one for each output.
        noise: Vec<f64>,
    },
}

impl Likelihood {
    /// Rows of the factor of `Lambda` for a network of this many outputs.
    #[must_use]
    pub const fn rows(&self, outputs: usize) -> usize {
        match self {
            Self::Categorical => outputs.saturating_sub(1),
            Self::Gaussian { .. } => outputs,
        }
    }

    /// The factors `F` of a batch of outputs: `[samples, rows, outputs]`, row-major.
    ///
    /// For classes, eliminating one class after the other gives a closed form: with `t_k` the probability of
    /// the classes from `k` on, row `k` is `sqrt(p_k t_{k+1} / t_k) (e_k - sum_{j>k} p_j / t_{k+1} e_j)`. The
    /// sums are of positive numbers, so that nothing cancels however confident a prediction is.
    ///
    /// # Panics
    /// If a Gaussian likelihood has not one noise for each output.
    #[must_use]
    pub fn factors(&self, outputs: &[f64], width: usize) -> Vec<f64> {
        let rows = self.rows(width);
        let samples = outputs.len().checked_div(width).unwrap_or(0);
        let mut factors = vec![0.0; samples * rows * width];
        if factors.is_empty() {
            return factors;
        }
        match self {
            Self::Categorical => {
                let mut probabilities = outputs.to_vec();
                softmax(&mut probabilities, width);
                let mut tail = vec![0.0; width + 1];
                for (factor, p) in
                    factors.chunks_exact_mut(rows * width).zip(probabilities.chunks_exact(width))
                {
                    for class in (0..width).rev() {
                        tail[class] = tail[class + 1] + p[class];
                    }
                    for (class, row) in factor.chunks_exact_mut(width).enumerate() {
                        let (here, after) = (tail[class], tail[class + 1]);
                        // No probability left for the later classes: no curvature between them.
                        if after <= 0.0 || p[class] <= 0.0 {
                            continue;
                        }
                        let root = (p[class] * (after / here)).sqrt();
                        row[class] = root;
                        for later in class + 1..width {
                            row[later] = -root * (p[later] / after);
                        }
                    }
                }
            }
            Self::Gaussian { noise } => {
                assert_eq!(noise.len(), width, "one noise for each output");
                for factor in factors.chunks_exact_mut(rows * width) {
                    for (output, &noise) in noise.iter().enumerate() {
                        factor[output * width + output] = 1.0 / noise;
                    }
                }
            }
        }
        factors
    }

    /// Whether the noise, if any, fits the outputs.
    pub(crate) fn check(&self, outputs: usize) -> Result<(), PosteriorError> {
        let Self::Gaussian { noise } = self else { return Ok(()) };
        if noise.len() != outputs {
            return Err(PosteriorError::Length { what: "noise", expected: outputs, found: noise.len() });
        }
        match noise.iter().position(|&noise| !(noise > 0.0 && noise.is_finite())) {
            Some(output) => Err(PosteriorError::Noise { output, noise: noise[output] }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `F' F` for one sample.
    fn lambda(likelihood: &Likelihood, outputs: &[f64]) -> Vec<f64> {
        let width = outputs.len();
        let factors = likelihood.factors(outputs, width);
        let mut lambda = vec![0.0; width * width];
        for row in factors.chunks_exact(width) {
            for a in 0..width {
                for b in 0..width {
                    lambda[a * width + b] += row[a] * row[b];
                }
            }
        }
        lambda
    }

    #[test]
    fn the_factor_of_a_categorical_likelihood_multiplies_out() {
        for logits in
            [vec![0.3, -1.0, 2.0, 0.5], vec![0.0, 40.0, -3.0], vec![5.0, 5.0], vec![-30.0, 0.0, 20.0]]
        {
            let mut p = logits.clone();
            softmax(&mut p, logits.len());
            let found = lambda(&Likelihood::Categorical, &logits);
            for a in 0..p.len() {
                for b in 0..p.len() {
                    // 1 - p as a sum over the others: the plain difference has no digits when p is near 1.
                    let others: f64 = (0..p.len()).filter(|&c| c != a).map(|c| p[c]).sum();
                    let expected = if a == b { p[a] * others } else { -p[a] * p[b] };
                    let gap = (found[a * p.len() + b] - expected).abs();
                    assert!(gap <= 1e-14 * expected.abs(), "{logits:?} ({a}, {b}): {gap:e} of {expected:e}");
                }
            }
        }
    }

    #[test]
    fn a_certain_prediction_has_no_curvature() {
        for logits in [[0.0, 2000.0, -5.0], [2000.0, 0.0, 0.0], [0.0, 0.0, 2000.0]] {
            assert!(lambda(&Likelihood::Categorical, &logits).iter().all(|&value| value == 0.0));
        }
    }

    #[test]
    fn a_single_class_has_no_rows() {
        assert_eq!(Likelihood::Categorical.rows(1), 0);
        assert!(Likelihood::Categorical.factors(&[1.0, 2.0], 1).is_empty());
    }
}
