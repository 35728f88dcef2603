//! Scores of new rows beside those of the run's test rows, with their intervals.

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Intervals, MeanOf, PROBABILITY_FLOOR, compare_means, mean_interval};
use serde::Serialize;

use super::report::Line;

/// A score and its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    const fn new(value: f64, [low, high]: [f64; 2]) -> Self {
        Self { value, low, high }
    }

    /// Whether the interval leaves 0 out.
    pub(super) fn differs_from_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl From<fedsi_metrics::Estimate> for Estimate {
    fn from(found: fedsi_metrics::Estimate) -> Self {
        Self::new(found.value, found.interval)
    }
}

/// What a score is called, whether it is a share of one, and whether more is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) is_share: bool,
    /// None where it should be near a level.
    pub(super) more_is_better: Option<bool>,
    /// What it is the mean of over rows; none where it is no mean, and cannot be compared at another mix of clients.
    pub(super) mean_of: Option<MeanOf>,
}

const fn measure(
    key: &'static str,
    title: &'static str,
    is_share: bool,
    more_is_better: Option<bool>,
    mean_of: Option<MeanOf>,
) -> Measure {
    Measure { key, title, is_share, more_is_better, mean_of }
}

const OF_CLASSES: [Measure; 6] = [
    measure("accuracy", "accuracy", true, Some(true), Some(MeanOf::Shares)),
    measure("balanced_accuracy", "balanced acc.", true, Some(true), None),
    measure("nll", "NLL", false, Some(false), Some(MeanOf::Positive)),
    measure("ece", "ECE", false, Some(false), None),
    measure("brier", "Brier", false, Some(false), Some(MeanOf::Positive)),
    measure("aurc", "AURC", false, Some(false), None),
];

const OF_VALUES: [Measure; 7] = [
    measure("rmse", "RMSE", false, Some(false), None),
    measure("mae", "MAE", false, Some(false), Some(MeanOf::Positive)),
    measure("nll", "NLL", false, Some(false), Some(MeanOf::Numbers)),
    measure("coverage_50", "in 50%", true, None, Some(MeanOf::Shares)),
    measure("coverage_80", "in 80%", true, None, Some(MeanOf::Shares)),
    measure("coverage_90", "in 90%", true, None, Some(MeanOf::Shares)),
    measure("coverage_95", "in 95%", true, None, Some(MeanOf::Shares)),
];

/// Predictions, and the client of each: a client's one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned<'a> {
    pub(super) predictions: &'a Predictions,
    pub(super) owners: &'a [usize],
}

/// Every score of new rows and of test rows. Where both are of the `same_clients`, the means of test rows are at the new
/// rows' mix of clients, and have a difference with an interval; other scores stand beside each other.
pub(super) fn lines(new: Owned<'_>, test: Owned<'_>, same_clients: bool) -> Vec<Line> {
    let measures: &[Measure] = match new.predictions {
        Predictions::Classes { .. } => &OF_CLASSES,
        Predictions::Values { .. } => &OF_VALUES,
    };
    let sides = [new, test];
    let scores = sides.map(|side| side.predictions.scores());
    let intervals = sides.map(intervals);
    let rows = sides.map(|side| row_values(side.predictions));
    let line = |measure: &Measure| {
        let Some(mean_of) = measure.mean_of else {
            let [new, test] = [0, 1].map(|side| {
                let found = intervals[side].as_ref()?.figures.iter().find(|(key, _)| *key == measure.key)?;
                Some(Estimate::new(value(&scores[side], measure.key)?, found.1))
            });
            return Line { measure: *measure, new, test, difference: None };
        };
        let [own, known] = [0, 1].map(|side| column(&rows[side], measure.key));
        let [own, known] = [(own.as_slice(), new.owners), (known.as_slice(), test.owners)];
        let compared = same_clients.then(|| compare_means(own, known, mean_of)).flatten();
        Line {
            measure: *measure,
            new: mean_interval(own, mean_of).map(Estimate::from),
            test: match compared {
                Some(found) => Some(found.known.into()),
                None => mean_interval(known, mean_of).map(Estimate::from),
            },
            difference: compared.map(|found| found.difference.into()),
        }
    };
    measures.iter().map(line).collect()
}

/// A score that is no mean.
const fn value(scores: &Scores, key: &str) -> Option<f64> {
    match scores {
        Scores::Classification { balanced_accuracy, ece, aurc, .. } => match key.as_bytes() {
            b"balanced_accuracy" => *balanced_accuracy,
            b"ece" => *ece,
            b"aurc" => *aurc,
            _ => None,
        },
        Scores::Regression { rmse, .. } => *rmse,
    }
}

fn intervals(Owned { predictions, owners }: Owned<'_>) -> Option<Intervals> {
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            let rows = fedsi_metrics::Predictions::new(probabilities, labels, *classes).ok()?;
            rows.intervals(owners, None).ok()?
        }
        Predictions::Values { outputs, mean, variance, targets } => {
            GaussianPredictions::new(mean, variance, targets, *outputs).ok()?.intervals(owners).ok()?
        }
    }
}

/// What each row adds to the scores that are means, with their keys.
type RowValues = Vec<(&'static str, Vec<f64>)>;

fn column(rows: &RowValues, key: &str) -> Vec<f64> {
    rows.iter().find(|(own, _)| *own == key).map(|(_, values)| values.clone()).unwrap_or_default()
}

fn row_values(predictions: &Predictions) -> RowValues {
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            let Ok(all) = fedsi_metrics::Predictions::new(probabilities, labels, *classes) else {
                return Vec::new();
            };
            let accuracy = all.rows().map(|row| f64::from(u8::from(row.is_correct()))).collect();
            let nll = all.rows().map(|row| -row.probability_of_label().max(PROBABILITY_FLOOR).ln()).collect();
            let brier = |row: fedsi_metrics::PredictionRow<'_, f32>| {
                let error = |(class, &p): (usize, &f32)| {
                    (f64::from(p) - f64::from(u8::from(class == row.label()))).powi(2)
                };
                row.probabilities().iter().enumerate().map(error).sum()
            };
            vec![("accuracy", accuracy), ("nll", nll), ("brier", all.rows().map(brier).collect())]
        }
        Predictions::Values { outputs, mean, variance, targets } => {
            let width = *outputs;
            let mut found: RowValues =
                ["mae", "nll", "coverage_50", "coverage_80", "coverage_90", "coverage_95"]
                    .map(|key| (key, Vec::new()))
                    .into();
            for ((mean, variance), targets) in
                mean.chunks(width.max(1)).zip(variance.chunks(width.max(1))).zip(targets.chunks(width.max(1)))
            {
                let row = GaussianPredictions::new(mean, variance, targets, width).ok();
                let Some(scores) = row.and_then(|row| row.scores()) else { return Vec::new() };
                let values = [scores.mae, scores.nll].into_iter().chain(scores.coverage);
                found.iter_mut().zip(values).for_each(|((_, column), value)| column.push(value));
            }
            found
        }
    }
}

/// The predictions at these rows.
pub(super) fn select(predictions: &Predictions, rows: &[usize]) -> Predictions {
    fn of<T: Copy>(values: &[T], width: usize, rows: &[usize]) -> Vec<T> {
        rows.iter().flat_map(|&row| values[row * width..(row + 1) * width].iter().copied()).collect()
    }
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => Predictions::Classes {
            classes: *classes,
            probabilities: of(probabilities, *classes, rows),
            labels: of(labels, 1, rows),
        },
        Predictions::Values { outputs, mean, variance, targets } => Predictions::Values {
            outputs: *outputs,
            mean: of(mean, *outputs, rows),
            variance: of(variance, *outputs, rows),
            targets: of(targets, *outputs, rows),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients with so many rows each, of which so many are right, with probability 0.8.
    fn predictions(clients: &[(usize, usize)]) -> (Predictions, Vec<usize>) {
        let (mut labels, mut owners) = (Vec::new(), Vec::new());
        for (client, &(right, rows)) in clients.iter().enumerate() {
            labels.extend((0..rows).map(|row| u32::from(row >= right)));
            owners.extend(std::iter::repeat_n(client, rows));
        }
        let probabilities = [0.8, 0.2].repeat(labels.len());
        (Predictions::Classes { classes: 2, probabilities, labels }, owners)
    }

    fn compared(new: &[(usize, usize)], test: &[(usize, usize)], same_clients: bool) -> Vec<Line> {
        let ((new, own), (test, known)) = (predictions(new), predictions(test));
        let (new, test) =
            (Owned { predictions: &new, owners: &own }, Owned { predictions: &test, owners: &known });
        lines(new, test, same_clients)
    }

    fn line<'a>(lines: &'a [Line], key: &str) -> &'a Line {
        lines.iter().find(|line| line.measure.key == key).unwrap()
    }

    #[test]
    fn ten_of_ten_right_say_nothing() {
        let found = compared(&[(10, 10)], &[(80, 100)], true);
        let accuracy = line(&found, "accuracy");
        let new = accuracy.new.unwrap();
        assert!(new.value == 1.0 && new.low < 0.75 && new.high == 1.0, "{new:?}");
        for one in &found {
            assert!(!one.difference.is_some_and(|found| found.differs_from_zero()), "{one:?}");
        }
    }

    /// The second client is worse, in the run and now; more of its rows come.
    #[test]
    fn another_mix_of_clients_is_no_change() {
        let found = compared(&[(18, 20), (90, 180)], &[(162, 180), (10, 20)], true);
        for key in ["accuracy", "nll", "brier"] {
            let one = line(&found, key);
            let difference = one.difference.unwrap();
            assert!(difference.value.abs() < 1e-9 && !difference.differs_from_zero(), "{one:?}");
        }
        assert!((line(&found, "accuracy").test.unwrap().value - 0.54).abs() < 1e-12);
        for key in ["ece", "aurc", "balanced_accuracy"] {
            let one = line(&found, key);
            assert!(one.new.is_some() && one.test.is_some() && one.difference.is_none(), "{one:?}");
        }
    }

    #[test]
    fn worse_is_seen_and_other_clients_are_not_compared() {
        let found = compared(&[(30, 60), (30, 60)], &[(90, 100), (90, 100)], true);
        let difference = line(&found, "accuracy").difference.unwrap();
        assert!((difference.value + 0.4).abs() < 1e-12 && difference.high < 0.0, "{difference:?}");
        let found = compared(&[(30, 60)], &[(90, 100), (90, 100)], false);
        assert!(found.iter().all(|line| line.difference.is_none() && line.test.is_some()));
    }

    /// Means over rows are the scores themselves.
    #[test]
    fn rows_add_up_to_scores() {
        let all = Predictions::Values {
            outputs: 2,
            mean: vec![0.0, 1.0, 2.0, 3.0],
            variance: vec![1.0, 2.0, 1.0, 0.5],
            targets: vec![0.5, 1.0, 5.0, 2.0],
        };
        let rows = row_values(&all);
        let mean = |key: &str| column(&rows, key).iter().sum::<f64>() / 2.0;
        let Scores::Regression { mae, nll, coverage_90, .. } = all.scores() else { panic!("not values") };
        for (key, score) in [("mae", mae), ("nll", nll), ("coverage_90", coverage_90)] {
            assert!((mean(key) - score.unwrap()).abs() < 1e-12, "{key}");
        }
        let (all, _) = predictions(&[(7, 10)]);
        let rows = row_values(&all);
        let mean = |key: &str| column(&rows, key).iter().sum::<f64>() / 10.0;
        let Scores::Classification { accuracy, nll, brier, .. } = all.scores() else { panic!("not classes") };
        for (key, score) in [("accuracy", accuracy), ("nll", nll), ("brier", brier)] {
            assert!((mean(key) - score.unwrap()).abs() < 1e-12, "{key}");
        }
    }
}
