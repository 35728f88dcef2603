//! `summary.json`: what a complete run says of itself.

use std::collections::BTreeMap;

use fedsi_fl::calibration::Calibration;
use fedsi_fl::client::{PosteriorSummary, Predictions};
use fedsi_fl::coordinator::Tally;
use fedsi_fl::scores::Scores;
use fedsi_fl::wire::Traffic;
use serde::{Deserialize, Serialize};

use crate::class_scores::ClassScores;
use crate::score_details::ScoreDetails;

/// Clients without scores that are named one by one.
const MAX_NAMED: usize = 5;

/// `summary.json`: written last, so that its presence means a complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The method's name.
    pub method: String,
    /// The dataset's name.
    pub dataset: String,
    /// small or large.
    pub size: String,
    /// The run's seed.
    pub seed: u64,
    /// Rounds trained.
    pub rounds: usize,
    /// Accuracy is the mean over clients; everything else is pooled over all test predictions. Both are of the clients
    /// that were scored, novel ones among them, and of no others.
    #[serde(flatten)]
    pub scores: Scores,
    /// How many clients those are. Runs of 0.1 do not say; [`Self::coverage`] counts for any run.
    #[serde(flatten)]
    pub coverage: Option<ClientCoverage>,
    /// Their 95% intervals, the majority's baseline and the confusion matrix.
    #[serde(flatten)]
    pub details: ScoreDetails,
    /// Every client on its own.
    pub clients: Vec<ClientScores>,
    /// Every class on its own, all test predictions together. Empty of a regression, of more than [`MAX_CLASSES`](crate::MAX_CLASSES), and in
    /// runs of 0.1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassScores>,
    /// What the personal models' posteriors are like, for the methods that infer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior: Option<PosteriorSummary>,
    /// Networks whose predictions are averaged; not said where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<usize>,
    /// What the federation chose on data set aside; nothing where it chose nothing.
    #[serde(default, skip_serializing_if = "Calibration::is_empty")]
    pub calibration: Calibration,
    /// Wall clock.
    pub seconds: Seconds,
    /// What travelled, all rounds together.
    pub bytes: Traffic,
    /// Updates that were left out by kind, and rounds that were skipped.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub trouble: Tally,
    /// What the shared part may tell of any one client at most, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// The chance that it tells more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// The most memory the process held; null where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// What it was computed on; runs of 0.1 do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The kind of CPU, as far as it decides the last bits of results: [`fedsi_nn::cpu_kind`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Version of fedsi.
    pub version: String,
    /// What tells the run's models from those of any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// SHA-256 of files that have no checksum of their own, by name; nothing in runs of 0.1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// The files that a summary has digests of, where they are there.
pub(crate) const DIGESTED: [&str; 5] =
    ["metrics.jsonl", "predictions.safetensors", "predictions.csv", "report_data.safetensors", "data.json"];

/// How many clients a run's scores are of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientCoverage {
    /// All clients.
    pub total_clients: usize,
    /// Those with test samples.
    pub tested_clients: usize,
    /// Those with test samples and a model that predicts them with finite values.
    pub scored_clients: usize,
    /// Mean accuracy over all clients with test samples, where one that could not be scored counts as 0. Clients without
    /// test samples do not count. Absent of a regression, and where no client has test samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_all: Option<f64>,
}

impl ClientCoverage {
    /// Counts the clients of a run.
    #[must_use]
    pub fn of(clients: &[ClientScores]) -> Self {
        let tested = || clients.iter().filter(|client| client.samples > 0);
        let scored = |client: &&ClientScores| client.scores.is_scored();
        let accuracy = |client: &ClientScores| match client.scores {
            Scores::Classification { accuracy, .. } if client.scores.is_scored() => accuracy,
            Scores::Classification { .. } => Some(0.0),
            Scores::Regression { .. } => None,
        };
        let over_all = fedsi_metrics::Summary::of(tested().filter_map(accuracy));
        Self {
            total_clients: clients.len(),
            tested_clients: tested().count(),
            scored_clients: tested().filter(scored).count(),
            accuracy_all: over_all.map(|over_all| over_all.mean),
        }
    }
}

impl Summary {
    /// Fills in scores that a run of 0.1 or 0.2 did not write down, from its predictions and whose each of them is. Changes
    /// nothing where all are there. Costs what scoring costs.
    pub fn complete_scores(&mut self, predictions: &Predictions, owners: &[usize], names: Option<&[String]>) {
        let is_whole = |scores: &Scores| match scores {
            Scores::Classification { aurc, accuracy, .. } => aurc.is_some() || accuracy.is_none(),
            Scores::Regression { .. } => true,
        };
        if is_whole(&self.scores) || owners.len() != predictions.len() {
            return;
        }
        self.scores = self.scores.completed_by(&predictions.scores());
        if self.classes.is_empty() {
            self.classes = ClassScores::of(predictions, names);
        }
        let Predictions::Classes { classes, probabilities, labels } = predictions else { return };
        let mut start = 0;
        for own in owners.chunk_by(|a, b| a == b) {
            let rows = start..start + own.len();
            start = rows.end;
            let Some(client) = self.clients.iter_mut().find(|client| client.id == own[0]) else { continue };
            let part = Predictions::Classes {
                classes: *classes,
                probabilities: probabilities[rows.start * classes..rows.end * classes].to_vec(),
                labels: labels[rows].to_vec(),
            };
            client.scores = client.scores.completed_by(&part.scores());
        }
    }

    /// Fills in intervals, baselines and classes that a run of an older version did not write down, from its predictions,
    /// whose each of them is, and the training samples of each class that a client has. Changes nothing where there are
    /// intervals. Costs what resampling costs.
    pub fn complete_details(
        &mut self,
        predictions: &Predictions,
        owners: &[usize],
        names: Option<&[String]>,
        training_counts: &dyn Fn(usize) -> Option<Vec<usize>>,
    ) {
        if !self.details.intervals.is_empty() {
            return;
        }
        if self.classes.iter().all(|class| class.recall_interval.is_none()) {
            self.classes = ClassScores::of(predictions, names);
        }
        let accuracies: Vec<f64> =
            self.clients.iter().filter_map(|client| client.scores.accuracy()).collect();
        self.details = ScoreDetails::of(predictions, owners, &accuracies, &self.classes, training_counts);
    }

    /// Which clients are novel, and their mean accuracy: one sentence for a terminal. None where none is.
    #[must_use]
    pub fn novel_sentence(&self) -> Option<String> {
        let novel: Vec<&ClientScores> = self.clients.iter().filter(|client| client.novel).collect();
        let mut named: Vec<String> =
            novel.iter().take(MAX_NAMED).map(|client| client.id.to_string()).collect();
        if novel.len() > named.len() {
            named.push(format!("and {} more", novel.len() - named.len()));
        }
        let (clients, are, theirs) = match novel.len() {
            0 => return None,
            1 => ("client", "it is", "its"),
            _ => ("clients", "they are", "their mean"),
        };
        let over_novel =
            fedsi_metrics::Summary::of(novel.iter().filter_map(|client| client.scores.accuracy()));
        let accuracy = over_novel
            .map(|over| format!("; {theirs} accuracy is {:.2}%", 100.0 * over.mean))
            .unwrap_or_default();
        let named = named.join(", ");
        Some(format!(
            "novel: {clients} {named} took no part in training; {are} among all clients' scores{accuracy}"
        ))
    }

    /// How many clients the scores are of, counted from the clients: runs of any version can say it.
    #[must_use]
    pub fn coverage(&self) -> ClientCoverage {
        ClientCoverage::of(&self.clients)
    }

    /// What must be said beside the scores where they are not of all clients: one sentence. None where they are.
    #[must_use]
    pub fn unscored_sentence(&self) -> Option<String> {
        let ClientCoverage { total_clients, tested_clients, scored_clients, accuracy_all } = self.coverage();
        if scored_clients == total_clients {
            return None;
        }
        let mut text = format!("{scored_clients} of {total_clients} clients scored");
        match total_clients - tested_clients {
            0 => {}
            1 => text.push_str(" (1 has no test data)"),
            untested => text.push_str(&format!(" ({untested} have no test data)")),
        }
        if scored_clients < tested_clients {
            let percent = |share: f64| format!("{:.2}%", 100.0 * share);
            text.push_str(&match (self.scores.accuracy(), accuracy_all) {
                (Some(own), Some(all)) => format!(
                    "; accuracy {} over those, {} if the others count as wrong",
                    percent(own),
                    percent(all)
                ),
                _ => "; the scores are of those alone".to_owned(),
            });
        }
        Some(text)
    }

    /// The first clients that have test data and no scores, each with the reason, and how many more there are.
    #[must_use]
    pub fn unscored_clients(&self) -> (Vec<(&ClientScores, &str)>, usize) {
        let failed = |client: &&ClientScores| client.samples > 0 && !client.scores.is_scored();
        let all = self.clients.iter().filter(failed);
        let named: Vec<_> =
            all.clone().take(MAX_NAMED).map(|client| (client, client.unscored_reason())).collect();
        let more = all.count() - named.len();
        (named, more)
    }

    /// The sentence and the clients as lines, for a terminal; none where all clients are scored.
    #[must_use]
    pub fn unscored_lines(&self) -> Vec<String> {
        let (named, more) = self.unscored_clients();
        let clients = named.iter().map(|(client, reason)| format!("  client {}: {reason}", client.label()));
        let more = (more > 0).then(|| format!("  and {more} more, in summary.json"));
        self.unscored_sentence().into_iter().chain(clients).chain(more).collect()
    }
}

/// One client's scores on its test data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientScores {
    /// Counted from 0.
    pub id: usize,
    /// The client's name, where the data has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its test samples; without any, or with a model that diverged, its scores are null.
    pub samples: usize,
    /// Why its model could not be made or used, where that is so; runs of 0.1 do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether it took no part in training (`federation.novel_clients`); absent where it may have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub novel: bool,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
}

impl ClientScores {
    /// The client's number, with its name where it has one, fit for a terminal: a long one is cut. A novel client says so.
    #[must_use]
    pub fn label(&self) -> String {
        let novel = if self.novel { " (novel)" } else { "" };
        match &self.name {
            None => format!("{}{novel}", self.id),
            Some(name) => format!("{} {}{novel}", self.id, fedsi_data::display_name(name)),
        }
    }

    /// Why it has no scores.
    #[must_use]
    pub fn unscored_reason(&self) -> &str {
        match &self.problem {
            _ if self.samples == 0 => "it has no test data",
            Some(problem) => problem,
            None => "its model could not be made, or predicts values that are not finite",
        }
    }
}

/// Wall clock of a run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// The rounds, less their posteriors.
    pub train: f64,
    /// The rounds' posteriors.
    pub posterior: f64,
    /// Personalising, final posteriors and predicting.
    pub evaluate: f64,
    /// Everything, reading the data included.
    pub total: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(value: Option<f64>) -> Scores {
        Scores::Classification {
            accuracy: value,
            ece: None,
            mce: None,
            brier: None,
            nll: value,
            mce_1pct: None,
            aurc: None,
            ece_floor: None,
            ece_floor_std: None,
            balanced_accuracy: None,
        }
    }

    fn rmse(value: Option<f64>) -> Scores {
        Scores::Regression {
            rmse: value,
            mae: value,
            nll: value,
            coverage_50: None,
            coverage_80: None,
            coverage_90: None,
            coverage_95: None,
        }
    }

    fn client(id: usize, samples: usize, scores: Scores) -> ClientScores {
        let problem = (samples > 0 && !scores.is_scored()).then(|| "it diverged".to_owned());
        ClientScores { id, name: None, samples, problem, novel: false, scores }
    }

    fn summary(scores: Scores, clients: Vec<ClientScores>) -> Summary {
        let text = r#"{"method": "fedavg", "dataset": "digits", "size": "small", "seed": 1, "rounds": 2, "accuracy": null,
            "clients": [], "seconds": {"train": 0, "posterior": 0, "evaluate": 0, "total": 0}, "bytes": {"up": 0, "down": 0},
            "peak_rss_bytes": null, "version": "0.1.0"}"#;
        let summary: Summary = serde_json::from_str(text).expect("a summary of 0.1 opens");
        assert_eq!((summary.coverage, &summary.cpu), (None, &None));
        Summary { scores, coverage: Some(ClientCoverage::of(&clients)), clients, ..summary }
    }

    #[test]
    fn novel_clients_are_named_with_their_accuracy() {
        let of = |novel: &[usize]| {
            let clients = (0..10).map(|id| ClientScores {
                novel: novel.contains(&id),
                ..client(id, 5, accuracy(Some(if novel.contains(&id) { 0.5 } else { 1.0 })))
            });
            summary(accuracy(Some(0.9)), clients.collect())
        };
        assert_eq!(of(&[]).novel_sentence(), None);
        let one = "novel: client 9 took no part in training; it is among all clients' scores; its accuracy is 50.00%";
        assert_eq!(of(&[9]).novel_sentence().unwrap(), one);
        let many = of(&[0, 1, 2, 3, 4, 5, 6]).novel_sentence().unwrap();
        assert!(
            many.contains("clients 0, 1, 2, 3, 4, and 2 more took") && many.contains("their mean"),
            "{many}"
        );
        let written = serde_json::to_value(of(&[9])).unwrap();
        assert_eq!(
            (written["clients"][9]["novel"].as_bool(), written["clients"][0].get("novel")),
            (Some(true), None)
        );
        assert_eq!(of(&[9]).clients[9].label(), "9 (novel)");
    }

    #[test]
    fn a_client_that_could_not_be_scored_counts_as_wrong() {
        // Accuracies 1 and .5 over two of three tested clients: .75 over those, (1 + .5 + 0) / 3 = .5 over all.
        let clients = vec![
            client(0, 10, accuracy(Some(1.0))),
            client(1, 30, accuracy(None)),
            client(2, 10, accuracy(Some(0.5))),
            client(3, 0, accuracy(None)),
        ];
        let summary = summary(accuracy(Some(0.75)), clients);
        let expected = ClientCoverage {
            total_clients: 4,
            tested_clients: 3,
            scored_clients: 2,
            accuracy_all: Some(0.5),
        };
        assert_eq!(summary.coverage(), expected);
        assert_eq!(
            summary.unscored_lines(),
            [
                "2 of 4 clients scored (1 has no test data); accuracy 75.00% over those, 50.00% if the others count as \
                 wrong",
                "  client 1: it diverged"
            ]
        );
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!((&json["scored_clients"], &json["accuracy_all"]), (&2.into(), &0.5.into()));
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }

    #[test]
    fn a_regression_has_no_accuracy_and_an_infinite_error_is_no_score() {
        let clients = vec![client(0, 5, rmse(Some(1.0))), client(1, 5, rmse(Some(f64::INFINITY)))];
        let summary = summary(rmse(Some(1.0)), clients);
        assert_eq!(
            (summary.coverage().scored_clients, summary.coverage().accuracy_all),
            (1, None),
            "{summary:?}"
        );
        assert!(serde_json::to_value(&summary).unwrap().get("accuracy_all").is_none());
        assert_eq!(
            summary.unscored_sentence().unwrap(),
            "1 of 2 clients scored; the scores are of those alone"
        );
    }

    #[test]
    fn all_scored_says_nothing_and_of_many_the_first_are_named() {
        let all = summary(accuracy(Some(1.0)), vec![client(0, 5, accuracy(Some(1.0)))]);
        assert_eq!(all.unscored_lines(), [""; 0]);
        let none = summary(accuracy(None), (0..8).map(|id| client(id, 5, accuracy(None))).collect());
        let lines = none.unscored_lines();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[6], "  and 3 more, in summary.json");
    }

    fn predictions() -> Predictions {
        // Labels 0 1 of client 0, 1 of client 2; the second is wrong.
        Predictions::Classes {
            classes: 3,
            probabilities: vec![0.5, 0.25, 0.25, 0.75, 0.25, 0.0, 0.0, 1.0, 0.0],
            labels: vec![0, 1, 1],
        }
    }

    #[test]
    fn an_older_summary_is_completed_from_its_predictions() {
        let clients = vec![
            client(0, 2, accuracy(Some(0.5))),
            client(1, 0, accuracy(None)),
            client(2, 1, accuracy(Some(1.0))),
        ];
        let mut old = summary(accuracy(Some(0.75)), clients);
        old.complete_scores(&predictions(), &[0, 0, 2], None);
        let of = |scores: &Scores| match *scores {
            Scores::Classification { accuracy, aurc, balanced_accuracy, .. } => {
                (accuracy, aurc, balanced_accuracy)
            }
            Scores::Regression { .. } => (None, None, None),
        };
        // Surest first: right, wrong, right.
        let risks = (0.0 + 0.5 + 1.0 / 3.0) / 3.0;
        assert_eq!(of(&old.scores), (Some(0.75), Some(risks), Some(0.75)));
        // The wrong one is surer than the right one.
        assert_eq!(of(&old.clients[0].scores), (Some(0.5), Some(0.75), Some(0.5)));
        assert_eq!(of(&old.clients[1].scores), (None, None, None));
        assert_eq!(of(&old.clients[2].scores), (Some(1.0), Some(0.0), Some(1.0)));
        assert_eq!(old.classes.len(), 3);
        let json = serde_json::to_value(&old).unwrap();
        assert_eq!(json["classes"][1]["recall"], 0.5);
        let whole = old.clone();
        old.complete_scores(
            &Predictions::Classes { classes: 3, probabilities: vec![], labels: vec![] },
            &[],
            None,
        );
        assert_eq!(old, whole, "nothing is missing");
    }
}
