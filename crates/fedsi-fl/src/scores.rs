//! Scores of predictions, by task.

use fedsi_metrics::regression;
use serde::{Deserialize, Serialize};

/// Scores by task; null where there was nothing to score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Of predicted classes.
    Classification {
        /// Share of right classes, 0 to 1.
        #[serde(deserialize_with = "present")]
        accuracy: Option<f64>,
        /// Expected calibration error, ten bins.
        ece: Option<f64>,
        /// Largest gap of a non-empty bin.
        mce: Option<f64>,
        /// Brier score, summed over classes.
        brier: Option<f64>,
        /// Mean negative log likelihood.
        nll: Option<f64>,
        /// Largest gap of a bin with at least 1% of the samples.
        mce_1pct: Option<f64>,
        /// Mean risk over coverages when the least confident predictions are declined first; runs of 0.1 have no
        /// such score, nor any of those below.
        #[serde(default)]
        aurc: Option<f64>,
        /// The `ece` that a perfectly calibrated model with these confidences would have on average.
        #[serde(default)]
        ece_floor: Option<f64>,
        /// The standard deviation of that model's `ece`.
        #[serde(default)]
        ece_floor_std: Option<f64>,
        /// Mean recall over the classes that have samples.
        #[serde(default)]
        balanced_accuracy: Option<f64>,
    },
    /// Of predicted values, in the data's own units.
    Regression {
        /// Root of the mean squared error.
        #[serde(deserialize_with = "present")]
        rmse: Option<f64>,
        /// Mean absolute error.
        mae: Option<f64>,
        /// Mean negative log likelihood of a Gaussian.
        nll: Option<f64>,
        /// Share of targets within the central 50% interval.
        coverage_50: Option<f64>,
        /// Within the central 80% interval.
        coverage_80: Option<f64>,
        /// Within the central 90% interval.
        coverage_90: Option<f64>,
        /// Within the central 95% interval.
        coverage_95: Option<f64>,
    },
}

/// A key that may be null but must be there: it tells the two kinds of scores apart.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(value)
}

impl Scores {
    /// Of predicted classes.
    #[must_use]
    pub fn classification(scores: Option<fedsi_metrics::ClassificationScores>) -> Self {
        let value = |of: fn(&fedsi_metrics::ClassificationScores) -> f64| scores.as_ref().map(of);
        Self::Classification {
            accuracy: value(|scores| scores.accuracy),
            ece: value(|scores| scores.ece),
            mce: value(|scores| scores.mce),
            brier: value(|scores| scores.brier),
            nll: value(|scores| scores.nll),
            mce_1pct: value(|scores| scores.mce_1pct),
            aurc: value(|scores| scores.aurc),
            ece_floor: value(|scores| scores.ece_floor),
            ece_floor_std: value(|scores| scores.ece_floor_std),
            balanced_accuracy: value(|scores| scores.balanced_accuracy),
        }
    }

    /// Of predicted values.
    #[must_use]
    pub fn regression(scores: Option<regression::RegressionScores>) -> Self {
        let value = |of: fn(&regression::RegressionScores) -> f64| scores.as_ref().map(of);
        Self::Regression {
            rmse: value(|scores| scores.rmse),
            mae: value(|scores| scores.mae),
            nll: value(|scores| scores.nll),
            coverage_50: value(|scores| scores.coverage[0]),
            coverage_80: value(|scores| scores.coverage[1]),
            coverage_90: value(|scores| scores.coverage[2]),
            coverage_95: value(|scores| scores.coverage[3]),
        }
    }

    /// The scores by name, the main one first, for tables and pages.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        match *self {
            Self::Classification { accuracy, ece, mce_1pct, brier, nll, aurc, ece_floor, .. } => vec![
                Figure::share("accuracy", accuracy),
                Figure { floor: ece_floor, ..Figure::number("ECE", ece) },
                // Not the plain maximum: a bin of one sample decides that.
                Figure::number("MCE 1%", mce_1pct),
                Figure::number("Brier", brier),
                Figure::number("NLL", nll),
                Figure { digits: 5, ..Figure::number("AURC", aurc) },
            ],
            Self::Regression { rmse, mae, nll, coverage_50, coverage_80, coverage_90, coverage_95 } => vec![
                Figure::number("RMSE", rmse),
                Figure::number("MAE", mae),
                Figure::number("NLL", nll),
                Figure::share("in 50%", coverage_50),
                Figure::share("in 80%", coverage_80),
                Figure::share("in 90%", coverage_90),
                Figure::share("in 95%", coverage_95),
            ],
        }
    }

    /// The names that `summary.json` has for the figures, in their order.
    #[must_use]
    pub const fn keys(&self) -> &'static [&'static str] {
        match self {
            Self::Classification { .. } => &["accuracy", "ece", "mce_1pct", "brier", "nll", "aurc"],
            Self::Regression { .. } => {
                &["rmse", "mae", "nll", "coverage_50", "coverage_80", "coverage_90", "coverage_95"]
            }
        }
    }

    /// These scores with those that are missing taken from `whole`, which are of the same predictions: what a run of an
    /// older version did not write down.
    #[must_use]
    pub fn completed_by(mut self, whole: &Self) -> Self {
        if let (
            Self::Classification { aurc, ece_floor, ece_floor_std, balanced_accuracy, .. },
            Self::Classification {
                aurc: new_aurc,
                ece_floor: new_floor,
                ece_floor_std: new_std,
                balanced_accuracy: new_balanced,
                ..
            },
        ) = (&mut self, whole)
        {
            let own = [aurc, ece_floor, ece_floor_std, balanced_accuracy];
            for (own, new) in own.into_iter().zip([new_aurc, new_floor, new_std, new_balanced]) {
                *own = own.or(*new);
            }
        }
        self
    }

    /// What a run reports: these scores of all predictions together, with the mean accuracy over clients that have
    /// one. Those of a regression have none.
    #[must_use]
    pub fn with_mean_accuracy<'a>(mut self, clients: impl IntoIterator<Item = &'a Self>) -> Self {
        if let Self::Classification { accuracy, .. } = &mut self {
            let over_clients = fedsi_metrics::Summary::of(clients.into_iter().filter_map(Self::accuracy));
            *accuracy = over_clients.map(|over_clients| over_clients.mean);
        }
        self
    }

    /// Whether there is a score: the main one, accuracy or RMSE, is there and finite. Files have null for a number that
    /// is not finite, so a saved run gives the same answer as the run itself.
    #[must_use]
    pub fn is_scored(&self) -> bool {
        let (Self::Classification { accuracy: main, .. } | Self::Regression { rmse: main, .. }) = self;
        main.is_some_and(f64::is_finite)
    }

    /// Mean negative log likelihood.
    #[must_use]
    pub const fn nll(&self) -> Option<f64> {
        match self {
            Self::Classification { nll, .. } | Self::Regression { nll, .. } => *nll,
        }
    }

    /// Brier score.
    #[must_use]
    pub const fn brier(&self) -> Option<f64> {
        match self {
            Self::Classification { brier, .. } => *brier,
            Self::Regression { .. } => None,
        }
    }

    /// Share of right classes.
    #[must_use]
    pub const fn accuracy(&self) -> Option<f64> {
        match self {
            Self::Classification { accuracy, .. } => *accuracy,
            Self::Regression { .. } => None,
        }
    }
}

/// One score with its name; written as a person reads it, `-` where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// Its value.
    pub value: Option<f64>,
    /// Whether it is a share of one, written as a percentage.
    pub is_share: bool,
    /// Digits behind the point, of what is no share.
    pub digits: usize,
    /// What chance alone would give, where that is not 0.
    pub floor: Option<f64>,
}

impl Figure {
    const fn share(name: &'static str, value: Option<f64>) -> Self {
        Self { name, value, is_share: true, digits: 2, floor: None }
    }

    const fn number(name: &'static str, value: Option<f64>) -> Self {
        Self { name, value, is_share: false, digits: 4, floor: None }
    }
}

impl Figure {
    /// The value and, where it has one, its noise floor: `0.0061 (floor 0.0019)`.
    #[must_use]
    pub fn beside_floor(&self) -> String {
        match self.floor.filter(|_| self.value.is_some()) {
            Some(floor) => format!("{self} (floor {floor:.*})", self.digits),
            None => self.to_string(),
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value {
            None => f.pad("-"),
            Some(value) if self.is_share => f.pad(&format!("{:.2}%", 100.0 * value)),
            Some(value) => f.pad(&format!("{value:.*}", self.digits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 0.2 wrote of a client.
    const OLD: &str =
        r#"{"accuracy": 0.5, "ece": 0.1, "mce": 0.2, "brier": 0.3, "nll": 0.4, "mce_1pct": null, "id": 3}"#;

    #[test]
    fn older_scores_are_read_and_completed() {
        let old: Scores = serde_json::from_str(OLD).unwrap();
        let Scores::Classification { accuracy: Some(0.5), aurc: None, ece_floor: None, .. } = old else {
            panic!("{old:?}");
        };
        let whole = fedsi_metrics::Predictions::new(&[0.9, 0.1, 0.4, 0.6], &[0, 0], 2).unwrap();
        let whole = Scores::classification(whole.scores(fedsi_metrics::Bins::default()));
        let Scores::Classification { ece: Some(0.1), aurc: Some(0.25), ece_floor: Some(_), .. } =
            old.completed_by(&whole)
        else {
            panic!("{:?}", old.completed_by(&whole));
        };
        // What is there stays.
        assert_eq!(whole.completed_by(&old), whole);
        assert_eq!(serde_json::from_value::<Scores>(serde_json::to_value(whole).unwrap()).unwrap(), whole);
    }

    #[test]
    fn ece_is_written_beside_its_floor() {
        let whole = fedsi_metrics::Predictions::new(&[0.5, 0.5], &[0], 2).unwrap();
        let figures = Scores::classification(whole.scores(fedsi_metrics::Bins::default())).figures();
        assert_eq!((figures[1].name, figures[1].beside_floor().as_str()), ("ECE", "0.5000 (floor 0.5000)"));
        assert_eq!(figures[0].beside_floor(), "100.00%");
        let scores = Scores::classification(whole.scores(fedsi_metrics::Bins::default()));
        assert_eq!(
            (scores.keys().len(), figures[2].name, scores.keys()[2]),
            (figures.len(), "MCE 1%", "mce_1pct")
        );
        let values = Scores::regression(None);
        assert_eq!(values.keys().len(), values.figures().len());
        assert_eq!(Figure { value: None, ..figures[1] }.beside_floor(), "-");
    }
}
