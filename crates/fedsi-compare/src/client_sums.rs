//! What a run's scores are made of, client by client, so that they can be computed again for any choice of clients without
//! its predictions.

use std::path::Path;

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_metrics::Bins;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_run::saved::verify_digest;
use fedsi_run::{ClientScores, Summary, read_prediction_clients, read_predictions};

/// Groups of samples of equal rank by uncertainty, for AURC.
const GROUPS: usize = 250;

/// The file with a run's predictions.
const FILE: &str = "predictions.safetensors";

/// A run's scores as sums over its clients.
#[derive(Clone, Debug)]
pub(crate) struct RunSums {
    /// Clients with predictions, in order.
    pub(crate) clients: Vec<usize>,
    sums: Sums,
}

#[derive(Clone, Debug)]
enum Sums {
    Classes(Vec<ClassSums>),
    /// From scores alone, without predictions.
    Scores(Vec<ScoreSums>),
    Values(Vec<ValueSums>),
}

/// Sums over one client's predicted classes.
#[derive(Clone, Debug)]
struct ClassSums {
    samples: f64,
    accuracy: f64,
    nll: f64,
    brier: f64,
    /// Right answers less confidences, by bin.
    gaps: Vec<f64>,
    /// Of groups of samples by uncertainty: which, how many, how many of them wrong.
    groups: Vec<(usize, f64, f64)>,
}

/// What one client's scores say of it: those that are means over its samples.
#[derive(Clone, Copy, Debug)]
struct ScoreSums {
    samples: f64,
    accuracy: f64,
    nll: f64,
    brier: f64,
}

/// Sums over one client's predicted values.
#[derive(Clone, Debug)]
struct ValueSums {
    samples: f64,
    nll: f64,
    entries: f64,
    squares: f64,
}

/// The scores that can be computed from sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resampled {
    /// The metric's key.
    pub(crate) key: &'static str,
    /// Its value.
    pub(crate) value: f64,
}

impl RunSums {
    /// Of a classification's summary, where its predictions are elsewhere: accuracy, Brier score and NLL, which are means
    /// over clients or samples. None where a client has no scores.
    pub(crate) fn of_summary(summary: &Summary) -> Option<Self> {
        let of = |client: &ClientScores| match client.scores {
            Scores::Classification { accuracy, brier, nll, .. } => {
                let samples = client.samples as f64;
                Some(ScoreSums { samples, accuracy: accuracy?, nll: samples * nll?, brier: samples * brier? })
            }
            Scores::Regression { .. } => None,
        };
        let tested = || summary.clients.iter().filter(|client| client.samples > 0);
        let sums = tested().map(of).collect::<Option<Vec<ScoreSums>>>()?;
        Some(Self { clients: tested().map(|client| client.id).collect(), sums: Sums::Scores(sums) })
    }

    /// Of a run's folder. Costs reading and sorting its predictions; keeps at most [`GROUPS`] numbers a client.
    ///
    /// # Errors
    /// A file that is missing, damaged or cannot be scored, in words.
    pub(crate) fn read(folder: &Path, summary: &mut Summary) -> Result<Self, String> {
        let bytes = std::fs::read(folder.join(FILE)).map_err(|error| error.to_string())?;
        if !verify_digest(&summary.files, FILE, &bytes) {
            return Err("its bytes are not those that the run wrote".to_owned());
        }
        let predictions = read_predictions(&bytes).map_err(|error| error.to_string())?;
        let owners = read_prediction_clients(&bytes).map_err(|error| error.to_string())?;
        if owners.len() != predictions.len() {
            return Err("it does not say whose each prediction is".to_owned());
        }
        summary.complete_scores(&predictions, &owners, None);
        Self::of(&predictions, &owners)
    }

    fn of(predictions: &Predictions, owners: &[usize]) -> Result<Self, String> {
        let parts: Vec<&[usize]> = owners.chunk_by(|a, b| a == b).collect();
        let clients: Vec<usize> = parts.iter().map(|part| part[0]).collect();
        if !clients.is_sorted_by(|a, b| a < b) {
            return Err("its clients are not in order".to_owned());
        }
        let ranges = parts.iter().scan(0, |start, part| {
            let from = *start;
            *start += part.len();
            Some(from..*start)
        });
        let words = |error: fedsi_metrics::MetricsError| error.to_string();
        let sums = match predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let all = fedsi_metrics::Predictions::new(probabilities, labels, *classes).map_err(words)?;
                let groups = groups(&all);
                let of = |rows: std::ops::Range<usize>| {
                    let own = &probabilities[rows.start * classes..rows.end * classes];
                    let part = fedsi_metrics::Predictions::new(own, &labels[rows.clone()], *classes);
                    part.map(|part| ClassSums::of(&part, &groups[rows])).map_err(words)
                };
                Sums::Classes(ranges.map(of).collect::<Result<_, _>>()?)
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                let of = |rows: std::ops::Range<usize>| {
                    let rows = rows.start * outputs..rows.end * outputs;
                    let (mean, variance, targets) =
                        (&mean[rows.clone()], &variance[rows.clone()], &targets[rows]);
                    let part = GaussianPredictions::new(mean, variance, targets, *outputs).map_err(words)?;
                    let scores = part.scores().ok_or("a client has no predictions")?;
                    let (samples, entries) = (part.len() as f64, targets.len() as f64);
                    Ok(ValueSums {
                        samples,
                        nll: samples * scores.nll,
                        entries,
                        squares: entries * scores.rmse * scores.rmse,
                    })
                };
                Sums::Values(ranges.map(of).collect::<Result<_, String>>()?)
            }
        };
        Ok(Self { clients, sums })
    }

    /// The scores where each client counts as often as its weight says. Costs a pass over the sums.
    pub(crate) fn scores(&self, weights: &[f64]) -> Vec<Resampled> {
        match &self.sums {
            Sums::Classes(clients) => class_scores(clients, weights),
            Sums::Scores(clients) => {
                let total = |of: fn(&ScoreSums) -> f64| -> f64 {
                    clients.iter().zip(weights).map(|(client, weight)| weight * of(client)).sum()
                };
                let samples = total(|client| client.samples);
                let value = |key, value| Resampled { key, value };
                vec![
                    value("accuracy", total(|client| client.accuracy) / total(|_| 1.0)),
                    value("brier", total(|client| client.brier) / samples),
                    value("nll", total(|client| client.nll) / samples),
                ]
            }
            Sums::Values(clients) => {
                let total = |of: fn(&ValueSums) -> f64| -> f64 {
                    clients.iter().zip(weights).map(|(client, weight)| weight * of(client)).sum()
                };
                let rmse = (total(|client| client.squares) / total(|client| client.entries)).sqrt();
                let nll = total(|client| client.nll) / total(|client| client.samples);
                vec![Resampled { key: "rmse", value: rmse }, Resampled { key: "nll", value: nll }]
            }
        }
    }
}

/// The group of every sample: equally many a group by uncertainty, and those of equal uncertainty together.
fn groups(all: &fedsi_metrics::Predictions<'_, f32>) -> Vec<usize> {
    let uncertainty: Vec<f64> = all.rows().map(|row| 1.0 - row.confidence()).collect();
    let mut order: Vec<usize> = (0..uncertainty.len()).collect();
    order.sort_by(|&a, &b| uncertainty[a].total_cmp(&uncertainty[b]));
    let mut groups = vec![0; order.len()];
    let mut first = 0;
    for tie in order.chunk_by(|&a, &b| uncertainty[a] == uncertainty[b]) {
        tie.iter().for_each(|&row| groups[row] = first * GROUPS / order.len());
        first += tie.len();
    }
    groups
}

impl ClassSums {
    fn of(part: &fedsi_metrics::Predictions<'_, f32>, group_of: &[usize]) -> Self {
        let (scores, samples) = (part.scores(Bins::default()), part.len() as f64);
        let bins = part.reliability(Bins::default());
        let mut own: Vec<(usize, bool)> =
            part.rows().zip(group_of).map(|(row, &group)| (group, !row.is_correct())).collect();
        own.sort_unstable();
        let groups = own.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let wrong = same.iter().filter(|(_, wrong)| *wrong).count();
            (same[0].0, same.len() as f64, wrong as f64)
        });
        Self {
            samples,
            accuracy: scores.map_or(f64::NAN, |scores| scores.accuracy),
            nll: scores.map_or(f64::NAN, |scores| samples * scores.nll),
            brier: scores.map_or(f64::NAN, |scores| samples * scores.brier),
            gaps: bins.bins().map(|bin| bin.count as f64 * (bin.accuracy - bin.confidence)).collect(),
            groups: groups.collect(),
        }
    }
}

fn class_scores(clients: &[ClassSums], weights: &[f64]) -> Vec<Resampled> {
    let weighted = || clients.iter().zip(weights).filter(|(_, weight)| **weight > 0.0);
    let total =
        |of: fn(&ClassSums) -> f64| -> f64 { weighted().map(|(client, weight)| weight * of(client)).sum() };
    let samples = total(|client| client.samples);
    let mut gaps = vec![0.0; Bins::default().count()];
    let mut groups = vec![(0.0, 0.0); GROUPS];
    for (client, weight) in weighted() {
        gaps.iter_mut().zip(&client.gaps).for_each(|(sum, gap)| *sum += weight * gap);
        for &(group, count, wrong) in &client.groups {
            groups[group].0 += weight * count;
            groups[group].1 += weight * wrong;
        }
    }
    let value = |key, value| Resampled { key, value };
    vec![
        value("accuracy", total(|client| client.accuracy) / total(|_| 1.0)),
        value("ece", gaps.iter().map(|gap| gap.abs()).sum::<f64>() / samples),
        value("brier", total(|client| client.brier) / samples),
        value("nll", total(|client| client.nll) / samples),
        value("aurc", area(&groups)),
    ]
}

/// AURC of groups of samples (how many, how many wrong), errors spread evenly over a group: the mean of the risk over
/// coverage as an integral.
fn area(groups: &[(f64, f64)]) -> f64 {
    let (mut answered, mut wrong, mut sum) = (0.0_f64, 0.0, 0.0);
    for &(count, errors) in groups.iter().filter(|(count, _)| *count > 0.0) {
        // The integral of (wrong + rate x) / (answered + x) over x from 0 to count.
        let rate = errors / count;
        sum += errors;
        if answered > 0.0 {
            sum += (wrong - rate * answered) * (count / answered).ln_1p();
        }
        answered += count;
        wrong += errors;
    }
    sum / answered
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Predictions of two classes by this many clients, wrong where `draw` says so.
    pub(crate) fn run(clients: usize, each: usize, seed: u64, skill: f64) -> (Predictions, Vec<usize>) {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let (mut probabilities, mut labels) = (Vec::new(), Vec::new());
        for client in 0..clients {
            for _ in 0..each {
                let confidence = 0.5 + 0.5 * draw().powf(0.3);
                // Clients differ in how hard they are.
                let right = draw() < (confidence * skill - 0.02 * (client % 3) as f64);
                probabilities.extend([confidence as f32, 1.0 - confidence as f32]);
                labels.push(u32::from(!right));
            }
        }
        let owners = (0..clients).flat_map(|client| std::iter::repeat_n(client, each)).collect();
        (Predictions::Classes { classes: 2, probabilities, labels }, owners)
    }

    pub(crate) fn sums(clients: usize, each: usize, seed: u64, skill: f64) -> RunSums {
        let (predictions, owners) = run(clients, each, seed, skill);
        RunSums::of(&predictions, &owners).unwrap()
    }

    fn score(found: &[Resampled], key: &str) -> f64 {
        found.iter().find(|one| one.key == key).unwrap().value
    }

    /// With every client once the sums give the run's own scores; AURC as an integral over groups, to a thousandth.
    #[test]
    fn weights_of_one_give_the_scores() {
        let (predictions, owners) = run(7, 400, 5, 0.95);
        let found = RunSums::of(&predictions, &owners).unwrap().scores(&[1.0; 7]);
        let scores = predictions.scores();
        for (key, tolerance) in
            [("accuracy", 1e-12), ("ece", 1e-12), ("brier", 1e-12), ("nll", 1e-12), ("aurc", 5e-3)]
        {
            let expected = crate::metric::value(&scores, key).unwrap();
            let own = score(&found, key);
            assert!((own - expected).abs() <= tolerance * expected, "{key}: {own} is not {expected}");
        }
    }

    /// A client of weight 2 is the same as two such clients, one of weight 0 the same as none.
    #[test]
    fn weights_count_clients() {
        let (Predictions::Classes { classes, probabilities, labels }, owners) = run(3, 200, 9, 0.9) else {
            unreachable!()
        };
        let part = |from: usize, to: usize| {
            let (mut p, mut l) = (Vec::new(), Vec::new());
            for rows in [0..200, from..to] {
                p.extend_from_slice(&probabilities[rows.start * classes..rows.end * classes]);
                l.extend_from_slice(&labels[rows]);
            }
            Predictions::Classes { classes, probabilities: p, labels: l }
        };
        let twice = part(0, 200);
        let whole =
            Predictions::Classes { classes, probabilities: probabilities.clone(), labels: labels.clone() };
        let found = RunSums::of(&whole, &owners).unwrap().scores(&[2.0, 0.0, 0.0]);
        for key in ["accuracy", "ece", "brier", "nll"] {
            let expected = crate::metric::value(&twice.scores(), key).unwrap();
            assert!((score(&found, key) - expected).abs() < 1e-12, "{key}");
        }
    }

    #[test]
    fn values_have_their_scores() {
        let predictions = Predictions::Values {
            outputs: 1,
            mean: vec![0.0, 0.0, 0.0],
            variance: vec![1.0; 3],
            targets: vec![1.0, 2.0, 4.0],
        };
        let sums = RunSums::of(&predictions, &[0, 0, 3]).unwrap();
        assert_eq!(sums.clients, [0, 3]);
        assert!((score(&sums.scores(&[1.0, 1.0]), "rmse") - 7.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(score(&sums.scores(&[0.0, 1.0]), "rmse"), 4.0);
        assert!(RunSums::of(&predictions, &[0, 3, 0]).is_err());
    }
}
