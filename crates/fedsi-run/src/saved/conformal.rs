//! Conformal sets and intervals, calibrated on the predictions of a run's own test samples: no fit has used those, neither
//! training nor the choice of a prior variance or temperature.

use fedsi_fl::client::Predictions;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{
    ConformalCoverage, MetricsError, class_nonconformity, conformal_intervals_found, conformal_quantile,
    conformal_sets_found, fewest_calibration_samples, value_nonconformity,
};

use super::{SavedError, SavedRun, damaged};

/// The largest nonconformity that is inside, at a level.
#[derive(Clone, Debug, PartialEq)]
pub struct ConformalCalibration {
    /// The wanted coverage.
    pub level: f64,
    /// For classes one; for values one a target.
    pub thresholds: Vec<f64>,
    /// Samples that it was calibrated on.
    pub samples: usize,
    /// Whose they are; none: all clients'.
    pub client: Option<usize>,
}

impl ConformalCalibration {
    /// Calibrates on the client's own test samples where they are enough, else on those of all clients. A client that the
    /// run did not have is none. O(n log n) after reading the predictions.
    ///
    /// # Errors
    /// Too few of them; a damaged file.
    pub fn find(run: &SavedRun, client: Option<usize>, level: f64) -> Result<Self, SavedError> {
        let (predictions, owners) = run.predictions()?;
        Self::among(run, (&predictions, &owners), client, level)
    }

    /// The same among predictions that are read already, with the client of each.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn among(
        run: &SavedRun,
        (predictions, owners): (&Predictions, &[usize]),
        client: Option<usize>,
        level: f64,
    ) -> Result<Self, SavedError> {
        let needed = fewest_calibration_samples(level);
        let own: Vec<usize> = (0..owners.len()).filter(|&row| Some(owners[row]) == client).collect();
        let all = owners.len();
        let (rows, client) = match (own.len() >= needed, all >= needed) {
            (true, _) => (own, client),
            (false, true) => ((0..all).collect(), None),
            (false, false) => {
                let own = client.map(|client| (client, own.len()));
                return Err(SavedError::FewCalibrationRows { level, own, all, needed });
            }
        };
        let path = run.path().join("predictions.safetensors");
        let thresholds = thresholds(predictions, &rows, level).map_err(damaged(&path))?;
        Ok(Self { level, thresholds, samples: rows.len(), client })
    }

    /// Calibrates on predictions of samples that a model was not fitted to.
    ///
    /// # Errors
    /// Too few of them; predictions that cannot be scored.
    pub fn on(predictions: &Predictions, level: f64) -> Result<Self, SavedError> {
        let (all, needed) = (predictions.len(), fewest_calibration_samples(level));
        if all < needed {
            return Err(SavedError::FewHeldOutRows { level, found: all, needed });
        }
        let rows: Vec<usize> = (0..all).collect();
        let thresholds = thresholds(predictions, &rows, level).map_err(SavedError::Scores)?;
        Ok(Self { level, thresholds, samples: all, client: None })
    }
}

/// The quantile of nonconformity over these rows, of each output by itself. No quantile keeps the level of so few rows:
/// everything is inside.
fn thresholds(predictions: &Predictions, rows: &[usize], level: f64) -> Result<Vec<f64>, MetricsError> {
    let (scores, outputs) = match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            (class_nonconformity(&fedsi_metrics::Predictions::new(probabilities, labels, *classes)?), 1)
        }
        Predictions::Values { outputs, mean, variance, targets } => {
            (value_nonconformity(&GaussianPredictions::new(mean, variance, targets, *outputs)?), *outputs)
        }
    };
    let of_output = |output: usize| {
        let own: Vec<f64> = rows.iter().map(|&row| scores[row * outputs + output]).collect();
        conformal_quantile(&own, level).unwrap_or(f64::INFINITY)
    };
    Ok((0..outputs).map(of_output).collect())
}

/// What sets or intervals of this level do on a run's test predictions, client by client, each judged by a calibration that
/// did not see it: see [`conformal_sets_found`]. One list for classes, one a target for values; clients that cannot be
/// calibrated, and all where predictions cannot be scored, are left out.
#[must_use]
pub fn conformal_found(
    predictions: &Predictions,
    owners: &[usize],
    level: f64,
) -> Vec<Vec<ConformalCoverage>> {
    let found = match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            fedsi_metrics::Predictions::new(probabilities, labels, *classes)
                .and_then(|checked| Ok(vec![conformal_sets_found(&checked, owners, level)?]))
        }
        Predictions::Values { outputs, mean, variance, targets } => {
            GaussianPredictions::new(mean, variance, targets, *outputs)
                .and_then(|checked| conformal_intervals_found(&checked, owners, level))
        }
    };
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 right predictions with probabilities 0.51, 0.52, .. 0.70.
    fn predictions() -> Predictions {
        let probabilities =
            (0..20_u8).flat_map(|row| [0.51 + 0.01 * f32::from(row), 0.49 - 0.01 * f32::from(row)]);
        Predictions::Classes { classes: 2, probabilities: probabilities.collect(), labels: vec![0; 20] }
    }

    #[test]
    fn thresholds_worked_by_hand() {
        // Nonconformities 0.30 to 0.49; ceil(21 * 0.5) = 11: the eleventh smallest is 0.40.
        let found = ConformalCalibration::on(&predictions(), 0.5).unwrap();
        assert!((found.thresholds[0] - 0.40).abs() < 1e-6, "{found:?}");
        assert_eq!((found.thresholds.len(), found.samples, found.client), (1, 20, None));
        let values = Predictions::Values {
            outputs: 2,
            mean: vec![0.0; 40],
            variance: vec![4.0; 40],
            targets: (0..40).map(f64::from).collect(),
        };
        // Output 0 has |y| / 2 = 0, 1, .. 19, output 1 half more; the eleventh.
        assert_eq!(ConformalCalibration::on(&values, 0.5).unwrap().thresholds, [10.0, 10.5]);
    }

    #[test]
    fn too_few_rows_are_counted() {
        let error = ConformalCalibration::on(&predictions(), 0.8).unwrap_err();
        assert!(error.is_bad_input());
        assert!(error.to_string().contains("20") && error.to_string().contains("50"), "{error}");
    }

    #[test]
    fn what_was_found_is_by_client() {
        let owners: Vec<usize> = (0..20).map(|row| row / 10).collect();
        let found = conformal_found(&predictions(), &owners, 0.5);
        assert_eq!(found.len(), 1);
        let ids: Vec<_> = found[0].iter().map(|one| (one.client, one.samples, one.own)).collect();
        assert_eq!(ids, [(0, 10, false), (1, 10, false)]);
        // The most probable class is always in the set, and always right here.
        assert!(found[0].iter().all(|one| one.covered == 10 && one.mean_size == 1.0), "{found:?}");
        assert!(conformal_found(&predictions(), &[0], 0.5).is_empty());
    }
}
