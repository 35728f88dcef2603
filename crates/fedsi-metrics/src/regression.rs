//! Scores of Gaussian predictions of real targets.

use crate::MetricsError;
use crate::error::check_length;
use crate::normal::normal_quantile;

/// The levels at which [`RegressionScores`] reports the coverage.
pub const LEVELS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

/// Means, variances and targets (each row-major, samples x outputs, f32 or f64), checked once.
///
/// Outputs are predicted by independent Gaussians `N(mean, variance)`, the variance with the noise included.
/// No samples at all is allowed; its scores are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianPredictions<'a, T = f64> {
    means: &'a [T],
    variances: &'a [T],
    targets: &'a [T],
    outputs: usize,
}

/// Scores of regression.
///
/// An *entry* is one output of one sample: n samples of O outputs have n O entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegressionScores {
    /// Root of the mean squared error over entries.
    pub rmse: f64,
    /// Mean absolute error over entries.
    pub mae: f64,
    /// Mean over samples of the negative log density in nats, summed over outputs:
    /// `sum_o (ln(2 pi v_o) + (y_o - m_o)^2 / v_o) / 2`. It depends on the unit of the targets.
    pub nll: f64,
    /// The share of entries inside their central interval at each of [`LEVELS`].
    pub coverage: [f64; 4],
    /// Mean over the levels 5%, 10%, .. 95% of `|coverage - level|`: 0 is calibrated, 0.5 the worst.
    pub interval_error: f64,
    /// How many samples.
    pub samples: usize,
}

impl<'a, T: Copy + Into<f64>> GaussianPredictions<'a, T> {
    /// Checks the arrays: equally long, a whole number of rows of `outputs`, means and targets finite,
    /// variances finite and positive.
    ///
    /// # Errors
    /// The first fault found, naming the row and the output.
    pub fn new(
        means: &'a [T],
        variances: &'a [T],
        targets: &'a [T],
        outputs: usize,
    ) -> Result<Self, MetricsError> {
        if outputs == 0 {
            return Err(MetricsError::NoColumns("output"));
        }
        let rows = targets.len() / outputs;
        check_length("targets", targets.len(), rows, outputs)?;
        check_length("means", means.len(), rows, outputs)?;
        check_length("variances", variances.len(), rows, outputs)?;
        for (i, &variance) in variances.iter().enumerate() {
            let (row, output) = (i / outputs, i % outputs);
            for (array, values) in [("means", means), ("targets", targets)] {
                let value = values[i].into();
                if !value.is_finite() {
                    return Err(MetricsError::NotFinite { array, row, column: output, value });
                }
            }
            let value = variance.into();
            if !value.is_finite() || value <= 0.0 {
                return Err(MetricsError::Variance { row, output, value });
            }
        }
        Ok(Self { means, variances, targets, outputs })
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.targets.len() / self.outputs
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The scores; `None` without samples. A pass over the entries for each level.
    pub fn scores(&self) -> Option<RegressionScores> {
        if self.is_empty() {
            return None;
        }
        let (mut squared, mut absolute, mut nll) = (0.0, 0.0, 0.0);
        for (residual, variance) in self.entries() {
            squared += residual * residual;
            absolute += residual.abs();
            nll += 0.5 * ((std::f64::consts::TAU * variance).ln() + residual * residual / variance);
        }
        let entries = self.targets.len() as f64;
        let levels = (1..20).map(|i| f64::from(i) / 20.0);
        Some(RegressionScores {
            rmse: (squared / entries).sqrt(),
            mae: absolute / entries,
            nll: nll / self.len() as f64,
            coverage: LEVELS.map(|level| self.share_inside(level)),
            interval_error: levels.map(|level| (self.share_inside(level) - level).abs()).sum::<f64>() / 19.0,
            samples: self.len(),
        })
    }

    /// The share of entries inside their central interval of probability `level`:
    /// `|y - m| <= z sqrt(v)` with `z` the `(1 + level)/2` quantile of the standard normal distribution.
    ///
    /// `None` without samples.
    pub fn coverage(&self, level: f64) -> Option<f64> {
        (!self.is_empty()).then(|| self.share_inside(level))
    }

    fn share_inside(&self, level: f64) -> f64 {
        let z = Self::half_width(level);
        let inside =
            self.entries().filter(|(residual, variance)| residual.abs() <= z * variance.sqrt()).count();
        inside as f64 / self.targets.len() as f64
    }

    /// How many outputs a sample has.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// (target less mean, variance) of every entry, samples x outputs.
    pub fn residuals(&self) -> impl Iterator<Item = (f64, f64)> + use<'a, T> {
        self.entries()
    }

    /// Half the width of the central interval of probability `level`, in predicted deviations.
    pub(crate) fn half_width(level: f64) -> f64 {
        normal_quantile(0.5 * (1.0 + level))
    }

    /// (residual, variance) of every entry.
    fn entries(&self) -> impl Iterator<Item = (f64, f64)> + use<'a, T> {
        let pairs = self.means.iter().zip(self.targets).zip(self.variances);
        pairs.map(|((&mean, &target), &variance)| (target.into() - mean.into(), variance.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-14, "{a} is not {b}");
    }

    #[test]
    fn four_entries_worked_by_hand() {
        // Two samples of two outputs; residuals 1, -3, 0, 2; variances 1, 4, 1, 1; so |z| = 1, 1.5, 0, 2.
        // RMSE sqrt((1 + 9 + 0 + 4)/4) = sqrt 3.5; MAE (1 + 3 + 0 + 2)/4 = 1.5.
        // NLL = [4 * ln(2 pi)/2 + ln(4)/2 + (1 + 9/4 + 0 + 4)/2] / 2 samples = ln(2 pi) + ln(2)/2 + 3.625/2.
        // Half-widths: 50% 0.674 -> 1 inside of 4; 80% 1.282 -> 2; 90% 1.645 -> 3; 95% 1.960 -> 3 (2 > 1.96).
        let s =
            GaussianPredictions::new(&[0.0, 5.0, 1.0, -1.0], &[1.0, 4.0, 1.0, 1.0], &[1.0, 2.0, 1.0, 1.0], 2)
                .unwrap()
                .scores()
                .unwrap();
        assert_eq!(s.samples, 2);
        close(s.rmse, 3.5_f64.sqrt());
        close(s.mae, 1.5);
        close(s.nll, std::f64::consts::TAU.ln() + 0.5 * 2.0_f64.ln() + 3.625 / 2.0);
        assert_eq!(s.coverage, [0.25, 0.5, 0.75, 0.75]);
        // |z| = 0, 1, 1.5, 2 lie in the central 0, 68.3, 86.6 and 95.4 percent. So a quarter is covered at the
        // 13 levels 5% to 65%, half at the 4 levels 70% to 85%, three quarters at 90% and 95%.
        // Sum of |0.25 - level|: 0.20 0.15 0.10 0.05 0 (0.5) and 0.05 .. 0.40 (1.8) = 2.3;
        // of |0.5 - level|: 0.20 + 0.25 + 0.30 + 0.35 = 1.1; of |0.75 - level|: 0.15 + 0.20 = 0.35.
        close(s.interval_error, (2.3 + 1.1 + 0.35) / 19.0);
    }

    #[test]
    fn quantiles_of_the_normal_are_covered_as_they_should_be() {
        // Targets at the 1000 mid-quantiles of the predicted Gaussian: each level is met to 1/1000.
        let targets: Vec<f64> = (0..1000).map(|i| normal_quantile((f64::from(i) + 0.5) / 1000.0)).collect();
        let (means, variances) = (vec![0.0; 1000], vec![1.0; 1000]);
        let calibrated = GaussianPredictions::new(&means, &variances, &targets, 1).unwrap().scores().unwrap();
        for (coverage, level) in calibrated.coverage.iter().zip(LEVELS) {
            assert!((coverage - level).abs() <= 1e-3, "{coverage} at {level}");
        }
        assert!(calibrated.interval_error < 1e-3);
        // Variances a hundred times too small are nearly never right, and cost likelihood.
        let small = vec![1e-4; 1000];
        let sure = GaussianPredictions::new(&means, &small, &targets, 1).unwrap().scores().unwrap();
        assert!(sure.coverage[3] < 0.05 && sure.interval_error > 0.4 && sure.nll > calibrated.nll);
    }

    #[test]
    fn faults_are_named() {
        let check = |m: &[f64], v: &[f64], t: &[f64], o| {
            GaussianPredictions::new(m, v, t, o).unwrap_err().to_string()
        };
        assert_eq!(check(&[], &[], &[], 0), "predictions need at least one output, found none");
        assert_eq!(
            check(&[0.0; 4], &[1.0; 4], &[0.0; 3], 2),
            "targets: expected 2 values (1 rows of 2), found 3"
        );
        assert_eq!(
            check(&[0.0; 2], &[1.0; 3], &[0.0; 2], 1),
            "variances: expected 2 values (2 rows of 1), found 3"
        );
        assert_eq!(
            check(&[0.0; 4], &[1.0, 1.0, 1.0, 0.0], &[0.0; 4], 2),
            "row 1, output 1: a variance must be finite and positive, found 0"
        );
        assert!(check(&[0.0], &[f64::NAN], &[0.0], 1).starts_with("row 0, output 0: a variance"));
        assert_eq!(
            check(&[0.0, f64::NAN], &[1.0; 2], &[0.0; 2], 1),
            "means, row 1, column 0: expected a finite number, found NaN"
        );
        assert!(check(&[0.0], &[1.0], &[f64::INFINITY], 1).starts_with("targets, row 0"));
    }

    #[test]
    fn no_samples_have_no_scores() {
        let nothing = GaussianPredictions::<f64>::new(&[], &[], &[], 3).unwrap();
        assert_eq!((nothing.scores(), nothing.coverage(0.9), nothing.len()), (None, None, 0));
    }

    proptest! {
        /// In another unit (y -> c y) the errors scale, the coverage stays and the NLL moves by `O ln c`.
        #[test]
        fn units(
            rows in prop::collection::vec((-3.0..3.0_f64, 0.1..4.0_f64, -3.0..3.0_f64), 1..40),
            power in -4..5_i32,
        ) {
            let c = 2.0_f64.powi(power); // a power of two: scaling is exact, so no interval edge is crossed
            let column = |f: fn(&(f64, f64, f64)) -> f64, c: f64| rows.iter().map(|r| c * f(r)).collect::<Vec<f64>>();
            let score = |c: f64| {
                let (m, v, t) = (column(|r| r.0, c), column(|r| r.1, c * c), column(|r| r.2, c));
                GaussianPredictions::new(&m, &v, &t, 1).unwrap().scores().unwrap()
            };
            let (one, scaled) = (score(1.0), score(c));
            prop_assert!((scaled.rmse - c * one.rmse).abs() <= 1e-12 * scaled.rmse);
            prop_assert!((scaled.mae - c * one.mae).abs() <= 1e-12 * scaled.mae);
            prop_assert!((scaled.nll - (one.nll + c.ln())).abs() < 1e-10);
            prop_assert_eq!(scaled.interval_error, one.interval_error);
            prop_assert!(one.mae <= one.rmse * (1.0 + 1e-12));
            prop_assert!(one.coverage.is_sorted());
            prop_assert!((0.0..=0.5).contains(&one.interval_error));
        }
    }
}
