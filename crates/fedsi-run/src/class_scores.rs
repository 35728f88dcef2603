//! How each class is predicted over all test predictions of a run.

use fedsi_fl::client::Predictions;
use fedsi_metrics::wilson;
use serde::{Deserialize, Serialize};

/// The most classes that are written down one by one.
pub const MAX_CLASSES: usize = 1_000;

/// The most classes whose AUROC is computed: each costs a sort of all predictions.
pub const MAX_AUROC_CLASSES: usize = 100;

/// How one class is predicted, over the test predictions of all clients that were scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// The class's name, or its number.
    pub name: String,
    /// Its test samples.
    pub samples: usize,
    /// The share of predictions of this class that are right; null where it is never predicted.
    pub precision: Option<f64>,
    /// The share of its samples that are recognised; null where it has none.
    pub recall: Option<f64>,
    /// Wilson's 95% interval of the precision, as if predictions were independent; runs of 0.2 have none, nor any of those
    /// below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision_interval: Option<[f64; 2]>,
    /// The same of the recall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall_interval: Option<[f64; 2]>,
    /// How well its probability tells its samples from those of all other classes: AUROC, one against the rest. Not of more
    /// than [`MAX_AUROC_CLASSES`] classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auroc: Option<f64>,
}

impl ClassScores {
    /// Of every class, in order: its name from `names`, where the data has names. Nothing of a regression, of predictions
    /// that cannot be scored, and of more than [`MAX_CLASSES`].
    #[must_use]
    pub fn of(predictions: &Predictions, names: Option<&[String]>) -> Vec<Self> {
        let Predictions::Classes { classes, probabilities, labels } = predictions else { return Vec::new() };
        if *classes > MAX_CLASSES || labels.is_empty() {
            return Vec::new();
        }
        let Ok(checked) = fedsi_metrics::Predictions::new(probabilities, labels, *classes) else {
            return Vec::new();
        };
        let name = |class: usize| names.and_then(|names| names.get(class)).cloned();
        let aurocs = if *classes <= MAX_AUROC_CLASSES { checked.class_aurocs() } else { Vec::new() };
        let counts = checked.class_counts().into_iter().enumerate();
        let of = |(class, counts): (usize, fedsi_metrics::ClassCounts)| Self {
            name: name(class).unwrap_or_else(|| class.to_string()),
            samples: counts.samples,
            precision: counts.precision(),
            recall: counts.recall(),
            precision_interval: wilson(counts.correct, counts.predicted),
            recall_interval: wilson(counts.correct, counts.samples),
            auroc: aurocs.get(class).copied().flatten(),
        };
        counts.map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_and_counted() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let found = ClassScores::of(&predictions(), Some(&names));
        let expected = [("a", 1, Some(0.5), Some(1.0)), ("b", 2, Some(1.0), Some(0.5)), ("c", 0, None, None)];
        for (class, (name, samples, precision, recall)) in found.iter().zip(expected) {
            let own = (class.name.as_str(), class.samples, class.precision, class.recall);
            assert_eq!(own, (name, samples, precision, recall));
        }
        // One of one recognised, and one of two: Wilson's intervals. Class 0 has .5 against .75 and 0: one pair of two won.
        assert_eq!((found[0].recall_interval, found[1].recall_interval), (wilson(1, 1), wilson(1, 2)));
        assert_eq!((found[0].precision_interval, found[2].precision_interval), (wilson(1, 2), None));
        assert_eq!((found[0].auroc, found[2].auroc), (Some(0.5), None));
        let old = r#"{"name": "a", "samples": 1, "precision": null, "recall": 1.0}"#;
        let old: ClassScores = serde_json::from_str(old).expect("a class of 0.2 opens");
        assert_eq!((old.recall, old.auroc, old.recall_interval), (Some(1.0), None, None));
        assert_eq!(ClassScores::of(&predictions(), None)[2].name, "2");
        let values =
            Predictions::Values { outputs: 1, mean: vec![1.0], variance: vec![1.0], targets: vec![1.0] };
        assert!(ClassScores::of(&values, None).is_empty());
        let many = Predictions::Classes { classes: MAX_CLASSES + 1, probabilities: vec![], labels: vec![] };
        assert!(ClassScores::of(&many, None).is_empty());
    }

    fn predictions() -> Predictions {
        // Labels 0 1 of client 0, 1 of client 2; the second is wrong.
        Predictions::Classes {
            classes: 3,
            probabilities: vec![0.5, 0.25, 0.25, 0.75, 0.25, 0.0, 0.0, 1.0, 0.0],
            labels: vec![0, 1, 1],
        }
    }
}
