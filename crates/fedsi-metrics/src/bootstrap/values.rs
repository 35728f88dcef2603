//! Scores of regression from sums over parts of the rows.

use super::{Intervals, Plan, around, check_owners};
use crate::MetricsError;
use crate::proportion::wilson;
use crate::regression::{GaussianPredictions, LEVELS};

/// The figures, in the order of [`NAMES`].
const NAMES: [&str; 7] = ["rmse", "mae", "nll", "coverage_50", "coverage_80", "coverage_90", "coverage_95"];

/// Sums over the entries of one part.
#[derive(Clone, Copy, Default)]
struct PartSums {
    rows: f64,
    entries: f64,
    squares: f64,
    absolutes: f64,
    nll: f64,
    inside: [f64; 4],
}

impl<T: Copy + Into<f64>> GaussianPredictions<'_, T> {
    /// 95% intervals of the scores, all of them over all rows. `owners` says whose each row is, a client's rows one after
    /// another. `None` of fewer than two rows. Costs a thousand passes over the sums of clients, or of at most 500 parts of
    /// each where they are few.
    ///
    /// # Errors
    /// Another number of owners than of rows.
    pub fn intervals(&self, owners: &[usize]) -> Result<Option<Intervals>, MetricsError> {
        check_owners(self.len(), owners)?;
        let Some(plan) = Plan::new(owners) else { return Ok(None) };
        let outputs = self.outputs();
        let widths = LEVELS.map(Self::half_width);
        let mut parts = vec![PartSums::default(); plan.client_of.len()];
        for (entry, (residual, variance)) in self.residuals().enumerate() {
            let part = &mut parts[plan.part_of[entry / outputs]];
            part.rows += 1.0 / outputs as f64;
            part.entries += 1.0;
            part.squares += residual * residual;
            part.absolutes += residual.abs();
            part.nll += 0.5 * ((std::f64::consts::TAU * variance).ln() + residual * residual / variance);
            for (inside, width) in part.inside.iter_mut().zip(widths) {
                *inside += f64::from(u8::from(residual.abs() <= width * variance.sqrt()));
            }
        }
        let score = |weights: &[f64]| scores(&parts, weights);
        let estimates = score(&vec![1.0; parts.len()]);
        let deviations = plan.deviations(score);
        let of = |place: usize| -> Option<(&'static str, [f64; 2])> {
            let (least, range) = if place < 3 {
                ([0.0; 2], if NAMES[place] == "nll" { f64::MIN..f64::MAX } else { 0.0..f64::MAX })
            } else {
                // Outputs of a row are not independent: as many trials as rows.
                let share = estimates[place];
                let count = (share * self.len() as f64).round() as usize;
                let [low, high] = wilson(count.min(self.len()), self.len())?;
                let own = count as f64 / self.len() as f64;
                ([low - own, high - own], 0.0..1.0)
            };
            Some((NAMES[place], around(estimates[place], deviations[place], least, range)?))
        };
        Ok(Some(Intervals { resampled: plan.resampled, figures: (0..NAMES.len()).filter_map(of).collect() }))
    }
}

fn scores(parts: &[PartSums], weights: &[f64]) -> [f64; NAMES.len()] {
    let mut sum = PartSums::default();
    for (part, &weight) in parts.iter().zip(weights) {
        sum.rows += weight * part.rows;
        sum.entries += weight * part.entries;
        sum.squares += weight * part.squares;
        sum.absolutes += weight * part.absolutes;
        sum.nll += weight * part.nll;
        sum.inside.iter_mut().zip(part.inside).for_each(|(sum, own)| *sum += weight * own);
    }
    let [a, b, c, d] = sum.inside.map(|inside| inside / sum.entries);
    [(sum.squares / sum.entries).sqrt(), sum.absolutes / sum.entries, sum.nll / sum.rows, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::super::Resampled;
    use super::*;

    #[test]
    fn intervals_hold_the_scores() {
        let n = 240;
        let residuals: Vec<f64> = (0..n).map(|row| (f64::from(row) * 0.7).sin() * 2.0).collect();
        let (means, variances) = (vec![0.0; n as usize], vec![1.0; n as usize]);
        for outputs in [1_usize, 2] {
            let all = GaussianPredictions::new(&means, &variances, &residuals, outputs).unwrap();
            let rows = all.len();
            for clients in [3, 8] {
                let owners: Vec<usize> = (0..rows).map(|row| row * clients / rows).collect();
                let found = all.intervals(&owners).unwrap().unwrap();
                let expected = if clients == 3 { Resampled::Rows } else { Resampled::Clients };
                assert_eq!((found.resampled, found.figures.len()), (expected, NAMES.len()));
                let scores = all.scores().unwrap();
                let values = [scores.rmse, scores.mae, scores.nll].into_iter().chain(scores.coverage);
                for ((name, [low, high]), value) in found.figures.iter().zip(values) {
                    assert!(low < &value && &value < high, "{name}: {low} {value} {high}");
                }
            }
        }
        let all = GaussianPredictions::new(&means, &variances, &residuals, 1).unwrap();
        assert!(all.intervals(&[1, 2]).is_err());
        let nothing = GaussianPredictions::<f64>::new(&[], &[], &[], 1).unwrap();
        assert_eq!(nothing.intervals(&[]).unwrap(), None);
    }

    /// 13 of 13 inside: an interval that reaches well below 1.
    #[test]
    fn all_inside_is_not_certain() {
        let all = GaussianPredictions::new(&[0.0; 13], &[1.0; 13], &[0.1; 13], 1).unwrap();
        let found = all.intervals(&[0; 13]).unwrap().unwrap();
        let [low, high] = found.figures.iter().find(|(name, _)| *name == "coverage_90").unwrap().1;
        assert!(low < 0.8 && high == 1.0, "{low} {high}");
    }
}
