//! How each class is predicted over all test predictions of a run.

use fedsi_fl::client::Predictions;
use serde::{Deserialize, Serialize};

/// The most classes that are written down one by one.
pub const MAX_CLASSES: usize = 1_000;

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
        let counts = checked.class_counts().into_iter().enumerate();
        let of = |(class, counts): (usize, fedsi_metrics::ClassCounts)| Self {
            name: name(class).unwrap_or_else(|| class.to_string()),
            samples: counts.samples,
            precision: counts.precision(),
            recall: counts.recall(),
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
