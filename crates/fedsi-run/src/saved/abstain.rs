//! When to abstain: a threshold on uncertainty, found on the predictions of a run's own test samples.
//!
//! A threshold is found on all of them, and judged by cross-fitting: thresholds found on every other sample are judged on
//! the rest, both ways, since one that is judged where it was chosen looks better than it is. What held there need not
//! hold elsewhere: it is an estimate from those samples, no guarantee.

use fedsi_data::Scaling;
use fedsi_fl::client::Predictions;
use fedsi_metrics::{AbstentionGoal, Judgement, MetricsError, RiskCoverage, cross_fitted};

use super::{FileProblem, Predicted, SavedError, SavedRun, damaged};
use crate::predictions_file::most_probable;

/// From which uncertainty on to abstain, and what that did on the run's test samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The largest uncertainty without abstaining; none: always abstain.
    pub uncertainty: Option<f64>,
    /// The share of the test samples it was found on without abstaining.
    pub coverage: f64,
    /// The share of those predictions that were wrong, which is less than is to be expected: it was chosen there. None for a
    /// regression, or where all abstain.
    pub risk: Option<f64>,
    /// What thresholds found on half of the test samples did on the other half; none of one sample.
    pub judged: Option<Judgement>,
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
        let (predictions, owners) = run.predictions()?;
        Self::among(run, (&predictions, &owners), client, goal, scaling)
    }

    /// The same among predictions that are read already, with the client of each.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn among(
        run: &SavedRun,
        (predictions, owners): (&Predictions, &[usize]),
        client: Option<usize>,
        goal: AbstentionGoal,
        scaling: Option<&Scaling>,
    ) -> Result<Self, SavedError> {
        let path = run.path().join("predictions.safetensors");
        if let (Predictions::Values { outputs, .. }, Some(scaling)) = (predictions, scaling)
            && scaling.std.len() != *outputs
        {
            let (found, expected) = (*outputs, scaling.std.len());
            return Err(damaged(&path)(FileProblem::Targets { found, expected }));
        }
        let (uncertainty, correct) = match predictions {
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
        let has_risk = matches!(predictions, Predictions::Classes { .. });
        let found = Self::on(&uncertainty, &correct, goal, has_risk).map_err(damaged(&path))?;
        found.ok_or(SavedError::NoThreshold { client })
    }

    fn on(
        uncertainty: &[f64],
        correct: &[bool],
        goal: AbstentionGoal,
        has_risk: bool,
    ) -> Result<Option<Self>, MetricsError> {
        let Some(curve) = RiskCoverage::new(uncertainty, correct)? else { return Ok(None) };
        let (judged, samples) = (cross_fitted(uncertainty, correct, goal)?, curve.points().len());
        let Some(most) = curve.threshold(goal) else {
            return Ok(Some(Self { uncertainty: None, coverage: 0.0, risk: None, judged, samples }));
        };
        // Samples of equal uncertainty are treated alike: what is reported includes the last of them.
        let answered = curve.points().partition_point(|point| point.uncertainty <= most);
        let last = curve.points()[answered.max(1) - 1];
        let risk = has_risk.then_some(last.risk);
        Ok(Some(Self { uncertainty: Some(most), coverage: last.coverage, risk, judged, samples }))
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

    fn on(uncertainty: &[f64], correct: &[bool], goal: AbstentionGoal, has_risk: bool) -> Threshold {
        Threshold::on(uncertainty, correct, goal, has_risk).unwrap().unwrap()
    }

    /// The threshold is from all samples, what it is worth from halves.
    #[test]
    fn thresholds_worked_by_hand() {
        let (uncertainty, correct) = ([0.1, 0.2, 0.3, 0.4], [true, true, false, true]);
        let half = on(&uncertainty, &correct, AbstentionGoal::Coverage(0.5), true);
        assert_eq!(
            (half.uncertainty, half.coverage, half.risk, half.samples),
            (Some(0.2), 0.5, Some(0.0), 4)
        );
        // Halves 0.1, 0.3 and 0.2, 0.4: up to 0.1 none of the second, up to 0.2 the first of the first.
        assert_eq!(half.judged, Some(Judgement { samples: 4, answered: 1, wrong: 0 }));
        assert_eq!(half.abstains(&[0.2, 0.200_000_1, 0.0]), [false, true, false]);
        let safe = on(&uncertainty, &correct, AbstentionGoal::Risk(0.0), true);
        assert_eq!((safe.uncertainty, safe.coverage, safe.risk), (Some(0.2), 0.5, Some(0.0)));
        // Up to 0.1 none of the second half, up to 0.4 all of the first: one of two is wrong, where none should be.
        assert_eq!(safe.judged, Some(Judgement { samples: 4, answered: 2, wrong: 1 }));
        let all = on(&uncertainty, &correct, AbstentionGoal::Risk(0.25), true);
        assert_eq!((all.uncertainty, all.coverage, all.risk), (Some(0.4), 1.0, Some(0.25)));
        assert_eq!(on(&uncertainty, &correct, AbstentionGoal::Coverage(1.0), false).risk, None);
        assert_eq!(Threshold::on(&[], &[], AbstentionGoal::Coverage(0.5), true).unwrap(), None);
        let one = on(&[0.1], &[true], AbstentionGoal::Coverage(0.5), true);
        assert_eq!((one.uncertainty, one.coverage, one.judged), (Some(0.1), 1.0, None));
    }

    #[test]
    fn a_risk_that_cannot_be_reached_always_abstains() {
        let none = on(&[0.1, 0.2], &[false, false], AbstentionGoal::Risk(0.2), true);
        assert_eq!((none.uncertainty, none.coverage, none.risk), (None, 0.0, None));
        assert_eq!(none.judged, Some(Judgement { samples: 2, answered: 0, wrong: 0 }));
        assert_eq!(none.abstains(&[0.0]), [true]);
    }

    #[test]
    fn equal_uncertainties_are_treated_alike() {
        let (uncertainty, correct) = ([0.1, 0.5, 0.5, 0.5], [true, true, false, true]);
        let tied = on(&uncertainty, &correct, AbstentionGoal::Coverage(0.5), true);
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
