//! What says how far a run's scores can be trusted, and what they are to be compared with.

use std::collections::BTreeMap;

use fedsi_fl::client::Predictions;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Intervals, Resampled, most_frequent, worst_tenth};
use serde::{Deserialize, Serialize};

use crate::class_scores::ClassScores;

/// The most classes of which every pair is counted.
pub const MAX_CONFUSION_CLASSES: usize = 50;

/// Beside the scores of `summary.json`; runs of 0.2 have none of it, and pages compute it from their predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreDetails {
    /// 95% intervals by the names of the scores; besides them `overconfidence` (mean confidence less accuracy, all test
    /// rows) and `above_majority` (`accuracy` less `majority_accuracy`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<String, [f64; 2]>,
    /// What was resampled for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals_by: Option<ResampledUnit>,
    /// Mean confidence less accuracy, all test rows: above 0 is overconfident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overconfidence: Option<f64>,
    /// Accuracy, mean over clients, of always answering the class that is the most frequent in a client's training rows
    /// (where those are not known: in all test rows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub majority_accuracy: Option<f64>,
    /// Mean accuracy of the worst tenth of clients, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_tenth_accuracy: Option<f64>,
    /// Mean over classes of the AUROC of one against the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auroc: Option<f64>,
    /// Of the samples of each class (a row), how many were predicted to be of each; not of more than
    /// [`MAX_CONFUSION_CLASSES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<usize>>,
}

/// What intervals were found by drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResampledUnit {
    /// Clients with all their rows: an interval says what other clients like these would give.
    Clients,
    /// Rows within each client, because there are fewer than five: it says nothing of other clients.
    Rows,
}

impl ScoreDetails {
    /// Of a run's test predictions, whose each is, the accuracy of every client that has one, the classes' scores, and how many training samples of each class a client has (nothing where
    /// that is not known). Costs a thousand passes over sums of clients.
    #[must_use]
    pub fn of(
        predictions: &Predictions,
        owners: &[usize],
        accuracies: &[f64],
        classes: &[ClassScores],
        training_counts: &dyn Fn(usize) -> Option<Vec<usize>>,
    ) -> Self {
        let mut details = Self {
            worst_tenth_accuracy: worst_tenth(accuracies.iter().copied()).map(|(mean, _)| mean),
            auroc: fedsi_metrics::Summary::of(classes.iter().filter_map(|class| class.auroc))
                .map(|over_classes| over_classes.mean),
            ..Self::default()
        };
        if owners.len() != predictions.len() || owners.is_empty() {
            return details;
        }
        match predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let Ok(rows) = fedsi_metrics::Predictions::new(probabilities, labels, *classes) else {
                    return details;
                };
                let majority = majority_answers(&rows, owners, training_counts);
                details.majority_accuracy = mean_accuracy(&majority, labels, owners);
                let gaps = rows.rows().map(|row| row.confidence() - f64::from(u8::from(row.is_correct())));
                details.overconfidence = Some(gaps.sum::<f64>() / rows.len() as f64);
                details.add(rows.intervals(owners, Some(&majority)).ok().flatten());
                if *classes <= MAX_CONFUSION_CLASSES {
                    details.confusion = rows.confusion().rows().map(<[usize]>::to_vec).collect();
                }
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                if let Ok(rows) = GaussianPredictions::new(mean, variance, targets, *outputs) {
                    details.add(rows.intervals(owners).ok().flatten());
                }
            }
        }
        details
    }

    fn add(&mut self, found: Option<Intervals>) {
        let Some(found) = found else { return };
        self.intervals = found.figures.into_iter().map(|(name, ends)| (name.to_owned(), ends)).collect();
        self.intervals_by = Some(match found.resampled {
            Resampled::Clients => ResampledUnit::Clients,
            Resampled::Rows => ResampledUnit::Rows,
        });
    }

    /// The 95% interval of a score.
    #[must_use]
    pub fn interval(&self, name: &str) -> Option<[f64; 2]> {
        self.intervals.get(name).copied()
    }
}

/// What the baseline answers each row.
fn majority_answers(
    rows: &fedsi_metrics::Predictions<'_, f32>,
    owners: &[usize],
    training_counts: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Vec<usize> {
    let overall = rows.most_frequent().unwrap_or(0);
    let of = |own: &[usize]| {
        let answer = training_counts(own[0]).and_then(most_frequent).unwrap_or(overall);
        std::iter::repeat_n(answer, own.len())
    };
    owners.chunk_by(|a, b| a == b).flat_map(of).collect()
}

/// The mean over clients of the share of answers that are right.
fn mean_accuracy(answers: &[usize], labels: &[u32], owners: &[usize]) -> Option<f64> {
    let mut start = 0;
    let shares = owners.chunk_by(|a, b| a == b).map(|own| {
        let rows = start..start + own.len();
        start = rows.end;
        let right = rows.clone().filter(|&row| answers[row] == labels[row] as usize).count();
        right as f64 / own.len() as f64
    });
    fedsi_metrics::Summary::of(shares.collect::<Vec<_>>()).map(|over_clients| over_clients.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions() -> Predictions {
        // Labels 0 1 of client 0, 1 1 of client 2; the second is wrong.
        Predictions::Classes {
            classes: 2,
            probabilities: vec![0.75, 0.25, 0.75, 0.25, 0.0, 1.0, 0.25, 0.75],
            labels: vec![0, 1, 1, 1],
        }
    }

    fn details(training: &dyn Fn(usize) -> Option<Vec<usize>>) -> ScoreDetails {
        let found = predictions();
        let classes = ClassScores::of(&found, None);
        ScoreDetails::of(&found, &[0, 0, 2, 2], &[], &classes, training)
    }

    #[test]
    fn worked_by_hand() {
        // Client 0 has mostly class 0 in training: right on one of two; client 2 is not known, and class 1 is the most
        // frequent in all test rows: right on both.
        let found = details(&|client| (client == 0).then(|| vec![5, 1]));
        assert_eq!(found.majority_accuracy, Some(0.75));
        // Accuracies .5 and 1 against .5 and 1.
        let [low, high] = found.interval("above_majority").unwrap();
        assert!(low <= 0.0 && high >= 0.0, "{low} {high}");
        // Confidences .75 .75 1 .75, three of four right: .8125 - .75.
        assert_eq!(found.overconfidence, Some(0.0625));
        assert_eq!(found.confusion, [vec![1, 0], vec![1, 2]]);
        assert_eq!(found.intervals_by, Some(ResampledUnit::Rows));
        // Class 1 has the scores .25, 1 and .75, class 0 the score .25 of class 1: two pairs won, one tie.
        assert_eq!(found.auroc, Some(2.5 / 3.0));
        // Without training counts: class 1 for all, right on one of two and two of two.
        assert_eq!(details(&|_| None).majority_accuracy, Some(0.75));
        assert_eq!(details(&|_| Some(vec![0, 0])).majority_accuracy, Some(0.75));
        assert_eq!(details(&|_| Some(vec![1, 0])).majority_accuracy, Some(0.25));
    }

    #[test]
    fn it_is_written_flat_and_may_be_absent() {
        let found = details(&|_| None);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["intervals_by"], "rows");
        assert_eq!(json["intervals"]["accuracy"].as_array().unwrap().len(), 2);
        assert_eq!(serde_json::from_value::<ScoreDetails>(json).unwrap(), found);
        assert_eq!(serde_json::to_string(&ScoreDetails::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<ScoreDetails>("{}").unwrap(), ScoreDetails::default());
    }

    #[test]
    fn of_a_regression_and_of_nothing() {
        let values = Predictions::Values {
            outputs: 1,
            mean: vec![1.0; 9],
            variance: vec![1.0; 9],
            targets: vec![1.5; 9],
        };
        let found = ScoreDetails::of(&values, &[0; 9], &[], &[], &|_| None);
        assert_eq!((found.majority_accuracy, found.confusion.len()), (None, 0));
        assert!(found.interval("coverage_50").is_some() && found.interval("rmse").is_some());
        let nothing = Predictions::Classes { classes: 2, probabilities: vec![], labels: vec![] };
        assert_eq!(ScoreDetails::of(&nothing, &[], &[], &[], &|_| None), ScoreDetails::default());
        assert_eq!(ScoreDetails::of(&values, &[0], &[], &[], &|_| None), ScoreDetails::default());
    }
}
