//! When to decline: a threshold on doubt, found on the predictions of a run's own test samples.
//!
//! What held there need not hold elsewhere: it is an estimate from those samples, no guarantee.

use fedsi_data::Scaling;
use fedsi_metrics::RiskCoverage;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::{Answers, SavedError, SavedRun, damaged, read};
use crate::files::{find, read_predictions};
use crate::predict::Predictions;

/// What abstaining is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Answer this share of the samples, the surest.
    Coverage(f64),
    /// Answer as many as possible while at most this share of the answers is wrong.
    Risk(f64),
}

/// Where to stop answering, and what that did on the run's test samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The largest doubt that is answered; none: nobody is.
    pub doubt: Option<f64>,
    /// The share of test samples answered.
    pub coverage: f64,
    /// The share of those answers that were wrong; none for values, or without answers.
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
        goal: Goal,
        scaling: Option<&Scaling>,
    ) -> Result<Self, SavedError> {
        let path = run.path().join("predictions.safetensors");
        let bytes = read(&path)?;
        let bad = |reason: String| damaged(&path, reason);
        let predictions = read_predictions(&bytes).map_err(bad)?;
        let owners = owners(&bytes).map_err(bad)?;
        if owners.len() != predictions.len() {
            return Err(bad("`client` is not as long as the predictions".to_owned()));
        }
        let (doubt, correct) = match &predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let rows = probabilities.chunks_exact(*classes).zip(labels);
                let correct = rows.map(|(row, &label)| surest(row).0 == label as usize).collect();
                (doubt_of_classes(probabilities, *classes), correct)
            }
            Predictions::Values { .. } if matches!(goal, Goal::Risk(_)) => return Err(SavedError::NoRisk),
            Predictions::Values { outputs, variance, .. } => {
                (doubt_of_values(variance, *outputs, scaling), vec![true; owners.len()])
            }
        };
        let own = |at: &usize| client.is_none_or(|client| owners[*at] == client as i64);
        let rows: Vec<usize> = (0..owners.len()).filter(own).collect();
        let doubt: Vec<f64> = rows.iter().map(|&at| doubt[at]).collect();
        let correct: Vec<bool> = rows.iter().map(|&at| correct[at]).collect();
        let curve = RiskCoverage::new(&doubt, &correct).map_err(|error| bad(error.to_string()))?;
        let Some(curve) = curve else {
            let whose = client.map_or("there are".to_owned(), |client| format!("client {client} has"));
            return Err(SavedError::NoThreshold { whose });
        };
        let judged = matches!(predictions, Predictions::Classes { .. });
        Ok(Self::on(&curve, goal, judged))
    }

    fn on(curve: &RiskCoverage, goal: Goal, judged: bool) -> Self {
        let samples = curve.points().len();
        let point = match goal {
            Goal::Coverage(share) => Some(curve.at_coverage(share)),
            Goal::Risk(risk) => curve.at_risk(risk),
        };
        let Some(point) = point else { return Self { doubt: None, coverage: 0.0, risk: None, samples } };
        // Samples alike in doubt are answered together: what is reported is where the last of them stands.
        let answered = curve.points().partition_point(|other| other.uncertainty <= point.uncertainty);
        let last = curve.points()[answered.max(1) - 1];
        Self {
            doubt: Some(point.uncertainty),
            coverage: last.coverage,
            risk: judged.then_some(last.risk),
            samples,
        }
    }

    /// For each of these doubts, whether to decline.
    #[must_use]
    pub fn abstains(&self, doubts: &[f64]) -> Vec<bool> {
        doubts.iter().map(|&doubt| self.doubt.is_none_or(|most| doubt > most)).collect()
    }
}

impl Answers {
    /// How unsure each row is: 1 less the largest probability; of values the standard deviation, and of several the
    /// root mean square of theirs in units of the targets' own spread.
    #[must_use]
    pub fn doubt(&self, scaling: Option<&Scaling>) -> Vec<f64> {
        match self {
            Self::Classes { classes, probabilities, .. } => doubt_of_classes(probabilities, *classes),
            Self::Values { outputs, variance, .. } => doubt_of_values(variance, *outputs, scaling),
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
pub fn surest(probabilities: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &probability) in probabilities.iter().enumerate() {
        if probability > best.1 {
            best = (class, probability);
        }
    }
    best
}

fn doubt_of_classes(probabilities: &[f32], classes: usize) -> Vec<f64> {
    probabilities.chunks_exact(classes).map(|row| 1.0 - f64::from(surest(row).1)).collect()
}

fn doubt_of_values(variance: &[f64], outputs: usize, scaling: Option<&Scaling>) -> Vec<f64> {
    let unit = |target: usize| match scaling {
        Some(scaling) if outputs > 1 => scaling.std[target],
        _ => 1.0,
    };
    let doubt = |row: &[f64]| {
        let scaled = row.iter().enumerate().map(|(target, value)| value / unit(target).powi(2));
        (scaled.sum::<f64>() / outputs as f64).sqrt()
    };
    variance.chunks_exact(outputs).map(doubt).collect()
}

/// Whose each prediction is.
fn owners(bytes: &[u8]) -> Result<Vec<i64>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let found = find(&tensors, "client", Dtype::I64)?;
    Ok(found.data().as_chunks::<8>().0.iter().map(|&eight| i64::from_le_bytes(eight)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(doubt: &[f64], correct: &[bool]) -> RiskCoverage {
        RiskCoverage::new(doubt, correct).unwrap().unwrap()
    }

    #[test]
    fn thresholds_worked_by_hand() {
        let curve = curve(&[0.1, 0.2, 0.3, 0.4], &[true, true, false, true]);
        let half = Threshold::on(&curve, Goal::Coverage(0.5), true);
        assert_eq!(half, Threshold { doubt: Some(0.2), coverage: 0.5, risk: Some(0.0), samples: 4 });
        assert_eq!(half.abstains(&[0.2, 0.200_000_1, 0.0]), [false, true, false]);
        let safe = Threshold::on(&curve, Goal::Risk(0.0), true);
        assert_eq!((safe.doubt, safe.coverage), (Some(0.2), 0.5));
        let all = Threshold::on(&curve, Goal::Risk(0.25), true);
        assert_eq!((all.doubt, all.coverage, all.risk), (Some(0.4), 1.0, Some(0.25)));
        assert_eq!(Threshold::on(&curve, Goal::Coverage(1.0), false).risk, None);
    }

    #[test]
    fn a_risk_that_cannot_be_had_answers_nobody() {
        let none = Threshold::on(&curve(&[0.1, 0.2], &[false, true]), Goal::Risk(0.2), true);
        assert_eq!(none, Threshold { doubt: None, coverage: 0.0, risk: None, samples: 2 });
        assert_eq!(none.abstains(&[0.0]), [true]);
    }

    #[test]
    fn samples_alike_are_answered_together() {
        let tied = Threshold::on(
            &curve(&[0.1, 0.5, 0.5, 0.5], &[true, true, false, true]),
            Goal::Coverage(0.5),
            true,
        );
        assert_eq!((tied.doubt, tied.coverage, tied.risk), (Some(0.5), 1.0, Some(0.25)));
    }

    #[test]
    fn several_targets_are_counted_in_their_own_spread() {
        let scaling = Scaling { mean: vec![0.0, 0.0], std: vec![10.0, 0.1] };
        let answers =
            Answers::Values { outputs: 2, mean: vec![0.0; 4], variance: vec![100.0, 0.0, 0.0, 0.02] };
        let doubt = answers.doubt(Some(&scaling));
        assert!((doubt[0] - 0.5_f64.sqrt()).abs() < 1e-12 && (doubt[1] - 1.0).abs() < 1e-12, "{doubt:?}");
        let one = Answers::Values { outputs: 1, mean: vec![0.0], variance: vec![4.0] };
        assert_eq!(one.doubt(Some(&scaling)), [2.0]);
    }
}
