//! What a client tells of its predictions, which stay with it: scores that pool with those of others.

use fedsi_metrics::{Bins, ReliabilityTable};

use super::{Client, ClientError, Predictions};
use crate::scores::Scores;

/// What a client says of its personal model on its own test samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Scored {
    /// Its scores.
    Scores(Box<TestScores>),
    /// Nothing but that it is done: the run hides clients.
    Withheld,
}

/// Scores of a client's own test samples.
#[derive(Clone, Debug, PartialEq)]
pub struct TestScores {
    /// How many test samples there are.
    pub samples: usize,
    /// The scores; empty without samples.
    pub scores: Scores,
    /// Counts and sums by confidence, of classes: calibration errors of several clients pool by them.
    pub reliability: Option<ReliabilityTable>,
}

impl TestScores {
    /// Scores of these predictions. Cost: a pass over them, and that of [`Predictions::scores`].
    #[must_use]
    pub fn of(predictions: &Predictions) -> Self {
        let reliability = match predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let found = fedsi_metrics::Predictions::new(probabilities, labels, *classes);
                found.ok().map(|found| found.reliability(Bins::default()))
            }
            Predictions::Values { .. } => None,
        };
        Self { samples: predictions.len(), scores: predictions.scores(), reliability }
    }

    /// Whether they are scores of as many samples: counts that agree, numbers that are finite.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let counted = self.reliability.as_ref().is_none_or(|table| table.samples() == self.samples);
        let bounded =
            self.reliability.as_ref().is_none_or(|table| table.sums().len() == Bins::default().count());
        let finite = self.scores.figures().iter().all(|figure| figure.value.is_none_or(f64::is_finite));
        counted && bounded && finite && self.samples <= MAX_SAMPLES
    }

    /// The scores of all clients together, as a run reports them: accuracy is the mean over clients; mean losses and
    /// shares are weighted by samples; calibration errors come from the pooled bins. What needs all predictions at once
    /// (`aurc`, `balanced_accuracy`) is not known. None where nobody has a sample, or tasks differ.
    #[must_use]
    pub fn pool<'a>(clients: impl IntoIterator<Item = &'a Self>) -> Option<Scores> {
        let scored: Vec<&Self> = clients.into_iter().filter(|one| one.samples > 0).collect();
        let mean = |of: fn(&Scores) -> Option<f64>| -> Option<f64> {
            let sums: Option<Vec<f64>> =
                scored.iter().map(|one| Some(of(&one.scores)? * one.samples as f64)).collect();
            let samples: usize = scored.iter().map(|one| one.samples).sum();
            sums.map(|sums| sums.iter().sum::<f64>() / samples as f64)
        };
        let pooled = match scored.first()?.scores {
            Scores::Classification { .. } => {
                let mut table = ReliabilityTable::new(Bins::default());
                for one in &scored {
                    table.append(one.reliability.as_ref()?).ok()?;
                }
                let floor = table.ece_floor();
                Scores::Classification {
                    accuracy: mean(Scores::accuracy)?.into(),
                    ece: table.ece(),
                    mce: table.mce(),
                    brier: mean(Scores::brier),
                    nll: mean(Scores::nll),
                    mce_1pct: table.mce_1pct(),
                    aurc: None,
                    ece_floor: floor.map(|floor| floor.mean),
                    ece_floor_std: floor.map(|floor| floor.std_dev),
                    balanced_accuracy: None,
                }
            }
            Scores::Regression { .. } => Scores::Regression {
                rmse: mean(|scores| regression(scores, |[rmse, ..]| rmse.map(|rmse| rmse * rmse)))?
                    .sqrt()
                    .into(),
                mae: mean(|scores| regression(scores, |[_, mae, ..]| mae)),
                nll: mean(Scores::nll),
                coverage_50: mean(|scores| regression(scores, |[_, _, share, ..]| share)),
                coverage_80: mean(|scores| regression(scores, |[_, _, _, share, ..]| share)),
                coverage_90: mean(|scores| regression(scores, |[_, _, _, _, share, _]| share)),
                coverage_95: mean(|scores| regression(scores, |[_, _, _, _, _, share]| share)),
            },
        };
        Some(pooled.with_mean_accuracy(scored.iter().map(|one| &one.scores)))
    }
}

/// More test samples than any client has.
pub(super) const MAX_SAMPLES: usize = 1 << 40;

/// One of the scores of a regression: of root mean squared error, mean absolute error and the four coverages.
fn regression(scores: &Scores, of: fn([Option<f64>; 6]) -> Option<f64>) -> Option<f64> {
    match *scores {
        Scores::Regression { rmse, mae, coverage_50, coverage_80, coverage_90, coverage_95, .. } => {
            of([rmse, mae, coverage_50, coverage_80, coverage_90, coverage_95])
        }
        Scores::Classification { .. } => None,
    }
}

impl Client {
    /// What a client tells of its predictions for its own test samples.
    ///
    /// # Errors
    /// Predictions that are not finite.
    pub fn score_test(&self, predictions: &Predictions) -> Result<Scored, ClientError> {
        if !predictions.are_finite() {
            return Err(ClientError::PredictionsDiverged);
        }
        Ok(match self.is_private {
            true => Scored::Withheld,
            false => Scored::Scores(Box::new(TestScores::of(predictions))),
        })
    }
}
