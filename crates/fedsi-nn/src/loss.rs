//! What training minimises.

use num_traits::Float;

use crate::Scalar;
use crate::scalar::vectorised;

/// The targets of a batch or of a data set.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a, T> {
    /// One class a sample.
    Classes(&'a [u32]),
    /// One row of values a sample.
    Values(&'a [T]),
}

/// Loss of one sample, averaged over the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// `-log softmax(f)[y]`.
    CrossEntropy,
    /// `sum_o (f_o - y_o)^2 / (2 noise^2)`: the Gaussian likelihood's part that depends on the network.
    Gaussian {
        /// Standard deviation of the observation noise.
        noise: f64,
    },
}

impl Loss {
    /// Mean loss over the rows named by `rows` (row `i` of `outputs` belongs to target `rows[i]`); writes its
    /// gradient in the outputs to `gradient`.
    pub(crate) fn gradient<T: Scalar>(
        self,
        outputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
        gradient: &mut [T],
    ) -> f64 {
        vectorised(
            #[inline(always)]
            || self.mean_and_gradient(outputs, targets, rows, gradient),
        )
    }

    #[inline(always)]
    fn mean_and_gradient<T: Scalar>(
        self,
        outputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
        gradient: &mut [T],
    ) -> f64 {
        if rows.is_empty() {
            return 0.0;
        }
        let width = outputs.len() / rows.len();
        let share = T::of(1.0 / rows.len() as f64);
        let samples = outputs.chunks_exact(width).zip(gradient.chunks_exact_mut(width)).zip(rows);
        let mut sum = 0.0;
        match (self, targets) {
            (Self::CrossEntropy, Targets::Classes(labels)) => {
                for ((logits, gradient), &row) in samples {
                    let label = labels[row as usize] as usize;
                    gradient.copy_from_slice(logits);
                    sum += softmax_row(gradient).double() - logits[label].double();
                    gradient[label] -= T::one();
                    for value in gradient {
                        *value *= share;
                    }
                }
            }
            (Self::Gaussian { noise }, Targets::Values(values)) => {
                let precision = 1.0 / (noise * noise);
                let factor = share * T::of(precision);
                for ((means, gradient), &row) in samples {
                    let targets = &values[row as usize * width..][..width];
                    for ((slope, &mean), &target) in gradient.iter_mut().zip(means).zip(targets) {
                        let residual = mean - target;
                        sum += 0.5 * precision * (residual * residual).double();
                        *slope = residual * factor;
                    }
                }
            }
            // The two kinds of targets belong to the two losses; a caller that mixes them has no loss.
            (Self::CrossEntropy, Targets::Values(_)) | (Self::Gaussian { .. }, Targets::Classes(_)) => {
                gradient.fill(T::nan());
                return f64::NAN;
            }
        }
        sum / rows.len() as f64
    }
}

/// Turns a row of logits into its softmax; returns the logarithm of the sum of their exponentials.
///
/// Probabilities too small for a normal number become zero: subnormal ones change no result, and make every
/// later product with them a hundred times slower.
#[inline(always)]
fn softmax_row<T: Scalar>(row: &mut [T]) -> T {
    let top = row.iter().fold(T::neg_infinity(), |top, &logit| if logit > top { logit } else { top });
    let smallest = Float::ln(T::min_positive_value());
    let mut total = T::zero();
    for value in row.iter_mut() {
        let logit = *value - top;
        *value = if logit < smallest { T::zero() } else { Float::exp(logit) };
        total += *value;
    }
    for value in row {
        *value /= total;
    }
    top + Float::ln(total)
}

/// Replaces each row of `width` logits by its softmax.
pub fn softmax<T: Scalar>(logits: &mut [T], width: usize) {
    vectorised(
        #[inline(always)]
        || {
            for row in logits.chunks_exact_mut(width) {
                softmax_row(row);
            }
        },
    );
}
