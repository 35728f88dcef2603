//! When to abstain: a threshold on uncertainty, found on the predictions of a run's own test samples.
//!
//! What held there need not hold elsewhere: it is an estimate from those samples, no guarantee.

use fedsi_data::Scaling;
use fedsi_fl::client::Predictions;
use fedsi_metrics::RiskCoverage;

use super::{FileProblem, Predicted, SavedError, SavedRun, damaged};
use crate::predictions_file::{read_prediction_clients, read_predictions};

/// What abstaining should achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbstentionGoal {
    /// Predict for this share of the samples, those of the lowest uncertainty.
    Coverage(f64),
    /// Predict for as many as possible while at most this share of the predictions is wrong.
    Risk(f64),
}

/// From which uncertainty on to abstain, and what that did on the run's test samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The largest uncertainty without abstaining; none: always abstain.
    pub uncertainty: Option<f64>,
    /// The share of test samples without abstaining.
    pub coverage: f64,
    /// The share of those predictions that were wrong; none for a regression, or where all abstain.
    pub risk: Option<f64>,
    /// Test samples that it was found on.
    pub samples: usize,
}

impl Threshold {
    /// Finds it on the test predictions of one client, or of all clients. O(n log n) after reading them.
    ///
    /// # Errors
    /// No such predictions, a damaged file, a risk of values.
    pub fn find(
        run: &SavedRun,
        client: Option<usize>,
        goal: AbstentionGoal,
        scaling: Option<&Scaling>,
    ) -> Result<Self, SavedError> {
        let path = run.path().join("predictions.safetensors");
        let bytes = run.read_digested("predictions.safetensors")?;
        let predictions = read_predictions(&bytes).map_err(damaged(&path))?;
        let owners = read_prediction_clients(&bytes).map_err(damaged(&path))?;
        if owners.len() != predictions.len() {
            return Err(damaged(&path)(FileProblem::PredictionClients));
        }
        if let (Predictions::Values { outputs, .. }, Some(scaling)) = (&predictions, scaling)
            && scaling.std.len() != *outputs
        {
            let (found, expected) = (*outputs, scaling.std.len());
            return Err(damaged(&path)(FileProblem::Targets { found, expected }));
        }
        let (uncertainty, correct) = match &predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let rows = probabilities.chunks_exact(*classes).zip(labels);
                let correct: Vec<bool> =
                    rows.map(|(row, &label)| most_probable(row).0 == label as usize).collect();
                (class_uncertainty(probabilities, *classes), correct)
            }
            Predictions::Values { .. } if matches!(goal, AbstentionGoal::Risk(_)) => {
                return Err(SavedError::NoRisk);
            }
            Predictions::Values { outputs, variance, .. } => {
                (value_uncertainty(variance, *outputs, scaling), vec![true; owners.len()])
            }
        };
        let own = |owner: &usize| client.is_none_or(|client| *owner == client);
        let rows = owners.iter().zip(uncertainty.into_iter().zip(correct)).filter(|(owner, _)| own(owner));
        let (uncertainty, correct): (Vec<f64>, Vec<bool>) = rows.map(|(_, row)| row).unzip();
        let curve = RiskCoverage::new(&uncertainty, &correct).map_err(damaged(&path))?;
        let Some(curve) = curve else {
            return Err(SavedError::NoThreshold { client });
        };
        let judged = matches!(predictions, Predictions::Classes { .. });
        Ok(Self::on(&curve, goal, judged))
    }

    fn on(curve: &RiskCoverage, goal: AbstentionGoal, judged: bool) -> Self {
        let samples = curve.points().len();
        let point = match goal {
            AbstentionGoal::Coverage(share) => Some(curve.at_coverage(share)),
            AbstentionGoal::Risk(risk) => curve.at_risk(risk),
        };
        let Some(point) = point else {
            return Self { uncertainty: None, coverage: 0.0, risk: None, samples };
        };
        // Samples of equal uncertainty are treated alike: what is reported includes the last of them.
        let answered = curve.points().partition_point(|other| other.uncertainty <= point.uncertainty);
        let last = curve.points()[answered.max(1) - 1];
        Self {
            uncertainty: Some(point.uncertainty),
            coverage: last.coverage,
            risk: judged.then_some(last.risk),
            samples,
        }
    }

    /// For each of these uncertainties, whether to abstain.
    #[must_use]
    pub fn abstains(&self, uncertainties: &[f64]) -> Vec<bool> {
        uncertainties
            .iter()
            .map(|&uncertainty| self.uncertainty.is_none_or(|most| uncertainty > most))
            .collect()
    }
}

impl Predicted {
    /// How unsure each row is: 1 less the largest probability; of values the standard deviation, and of several the
    /// root mean square of theirs in units of the targets' own spread.
    #[must_use]
    pub fn uncertainty(&self, scaling: Option<&Scaling>) -> Vec<f64> {
        match self {
            Self::Classes { classes, probabilities, .. } => class_uncertainty(probabilities, *classes),
            Self::Values { outputs, variance, .. } => value_uncertainty(variance, *outputs, scaling),
        }
    }

    /// How many rows there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Classes { classes, probabilities, .. } => probabilities.len() / *classes,
            Self::Values { outputs, mean, .. } => mean.len() / *outputs,
        }
    }

    /// Whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The most probable class, among equals the lowest, and its probability.
#[must_use]
pub fn most_probable(probabilities: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &probability) in probabilities.iter().enumerate() {
        if probability > best.1 {
            best = (class, probability);
        }
    }
    best
}

fn class_uncertainty(probabilities: &[f32], classes: usize) -> Vec<f64> {
    probabilities.chunks_exact(classes).map(|row| 1.0 - f64::from(most_probable(row).1)).collect()
}

fn value_uncertainty(variance: &[f64], outputs: usize, scaling: Option<&Scaling>) -> Vec<f64> {
    let unit = |target: usize| match scaling {
        Some(scaling) if outputs > 1 => scaling.std[target],
        _ => 1.0,
    };
    let uncertainty = |row: &[f64]| {
        let scaled = row.iter().enumerate().map(|(target, value)| value / unit(target).powi(2));
        (scaled.sum::<f64>() / outputs as f64).sqrt()
    };
    variance.chunks_exact(outputs).map(uncertainty).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(uncertainty: &[f64], correct: &[bool]) -> RiskCoverage {
        RiskCoverage::new(uncertainty, correct).unwrap().unwrap()
    }

    #[test]
    fn thresholds_worked_by_hand() {
        let curve = curve(&[0.1, 0.2, 0.3, 0.4], &[true, true, false, true]);
        let half = Threshold::on(&curve, AbstentionGoal::Coverage(0.5), true);
        assert_eq!(half, Threshold { uncertainty: Some(0.2), coverage: 0.5, risk: Some(0.0), samples: 4 });
        assert_eq!(half.abstains(&[0.2, 0.200_000_1, 0.0]), [false, true, false]);
        let safe = Threshold::on(&curve, AbstentionGoal::Risk(0.0), true);
        assert_eq!((safe.uncertainty, safe.coverage), (Some(0.2), 0.5));
        let all = Threshold::on(&curve, AbstentionGoal::Risk(0.25), true);
        assert_eq!((all.uncertainty, all.coverage, all.risk), (Some(0.4), 1.0, Some(0.25)));
        assert_eq!(Threshold::on(&curve, AbstentionGoal::Coverage(1.0), false).risk, None);
    }

    #[test]
    fn a_risk_that_cannot_be_reached_always_abstains() {
        let none = Threshold::on(&curve(&[0.1, 0.2], &[false, true]), AbstentionGoal::Risk(0.2), true);
        assert_eq!(none, Threshold { uncertainty: None, coverage: 0.0, risk: None, samples: 2 });
        assert_eq!(none.abstains(&[0.0]), [true]);
    }

    #[test]
    fn equal_uncertainties_are_treated_alike() {
        let tied = Threshold::on(
            &curve(&[0.1, 0.5, 0.5, 0.5], &[true, true, false, true]),
            AbstentionGoal::Coverage(0.5),
            true,
        );
        assert_eq!((tied.uncertainty, tied.coverage, tied.risk), (Some(0.5), 1.0, Some(0.25)));
    }

    #[test]
    fn several_targets_are_counted_in_their_own_spread() {
        let scaling = Scaling { mean: vec![0.0, 0.0], std: vec![10.0, 0.1] };
        let predicted =
            Predicted::Values { outputs: 2, mean: vec![0.0; 4], variance: vec![100.0, 0.0, 0.0, 0.02] };
        let uncertainty = predicted.uncertainty(Some(&scaling));
        assert!(
            (uncertainty[0] - 0.5_f64.sqrt()).abs() < 1e-12 && (uncertainty[1] - 1.0).abs() < 1e-12,
            "{uncertainty:?}"
        );
        let one = Predicted::Values { outputs: 1, mean: vec![0.0], variance: vec![4.0] };
        assert_eq!(one.uncertainty(Some(&scaling)), [2.0]);
    }
}
