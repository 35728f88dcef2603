//! `compare.json`: all results of a comparison, for scripts and for the report.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_fl::scores::Scores;
use fedsi_fl::wire::Traffic;
use fedsi_run::ClientCoverage;
use serde::{Deserialize, Serialize};

use crate::CompareError;
use crate::standing::Standing;
use crate::statistics::{Metric, MetricResult};

/// Methods compared on one dataset over the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The dataset's name.
    pub dataset: String,
    /// small or large.
    pub size: String,
    /// The seeds; each gives every method the same clients.
    pub seeds: Vec<u64>,
    /// Rounds of a run.
    pub rounds: usize,
    /// The most runs that were at work side by side when `seconds` were measured.
    pub jobs: usize,
    /// Version of fedsi.
    pub version: String,
    /// What is scored, the main score first, and which way is better.
    pub metrics: Vec<Metric>,
    /// The name of the method that the others are tested against; comparisons of 0.1 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The columns that a table was asked to have; all of them where it was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Runs that are not complete yet: of a comparison that was stopped, and of no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingRun>,
    /// How values were tuned, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningProtocol>,
    /// The methods, in the order in which they are always listed.
    pub methods: Vec<MethodResult>,
}

/// How values were tuned: the same for every method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuningProtocol {
    /// Rounds of a trial of the search.
    pub rounds: usize,
    /// The trials for all rounds of a run that decide after the search, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalists: Option<Finalists>,
    /// The first seed of trials.
    pub seed: u64,
    /// How many seeds, from that on: every setting is tried on each, and its mean score counts.
    #[serde(default = "one_seed", skip_serializing_if = "is_one_seed")]
    pub seeds: usize,
    /// The share of clients' training data that trials were scored on and did not learn from.
    pub held_out: f64,
    /// What decided: the score, lower is better.
    pub score: String,
}

const fn one_seed() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_one_seed(seeds: &usize) -> bool {
    *seeds == 1
}

impl TuningProtocol {
    /// The seeds of trials in words.
    #[must_use]
    pub fn seeds_text(&self) -> String {
        match self.seeds {
            0 | 1 => format!("seed {}", self.seed),
            count => format!("seeds {} to {}", self.seed, self.seed.saturating_add(count as u64 - 1)),
        }
    }
}

/// What is tried for all rounds of a run after a search by shorter trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finalists {
    /// The best trials of the search; the settings before it are tried beside them.
    pub count: usize,
    /// Rounds.
    pub rounds: usize,
}

/// One method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodResult {
    /// The name on the command line.
    pub name: String,
    /// The name in a table.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// Which model is evaluated.
    pub evaluated: String,
    /// The files of another tool's predictions, where it is one: `{seed}` stands for the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// Its complete runs, by seed.
    pub runs: Vec<RunResult>,
    /// Its runs that failed.
    pub failures: Vec<Failure>,
    /// What its scores are of, and whether they can be ranked.
    #[serde(flatten)]
    pub standing: Standing,
    /// How it stands, by the metric's key.
    pub metrics: BTreeMap<String, MetricResult>,
    /// The values that tuning chose, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tuned: BTreeMap<String, f64>,
    /// Every trial of the tuning, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
}

/// One complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Its seed.
    pub seed: u64,
    /// Its folder, within that of the comparison.
    pub folder: String,
    /// Its scores, as in its `summary.json`.
    pub scores: Scores,
    /// How many clients they are of; comparisons of 0.1 do not say.
    #[serde(flatten)]
    pub coverage: Option<ClientCoverage>,
    /// Wall clock; runs beside it share the machine. Null of another tool's.
    pub seconds: Option<f64>,
    /// What travelled. Null of another tool's.
    pub bytes: Option<Traffic>,
    /// The most memory the process held until the run ended, runs beside it and before it included.
    pub peak_rss_bytes: Option<u64>,
}

/// A run that is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRun {
    /// The method's name.
    pub method: String,
    /// The run's seed.
    pub seed: u64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Why.
    pub reason: String,
}

/// One trial of a tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The values tried, by key.
    pub values: BTreeMap<String, f64>,
    /// Its rounds, where they are not those of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// Its seed, where it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Mean negative log likelihood of personal models on held-out training data; null where the trial failed.
    pub held_out_nll: Option<f64>,
    /// Every score on that data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Scores>,
    /// Wall clock.
    pub seconds: f64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Comparison {
    /// Whether the data is somebody's own, of whatever size it has, and not a dataset with a small and a large form.
    #[must_use]
    pub fn is_own_data(&self) -> bool {
        !fedsi_data::Datasets::builtin().names().any(|name| name == self.dataset)
    }

    /// Writes `compare.json` into the folder: after everything else but the page.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), CompareError> {
        let target = folder.join("compare.json");
        let text =
            serde_json::to_string_pretty(self).map_err(|error| CompareError::content(&target, &error))?;
        Ok(fedsi_run::write_whole(&target, format!("{text}\n").as_bytes())?)
    }

    /// Reads `compare.json` in a folder.
    ///
    /// # Errors
    /// A file that is missing or no comparison.
    pub fn read(folder: &Path) -> Result<Self, CompareError> {
        let path = folder.join("compare.json");
        let text = std::fs::read_to_string(&path).map_err(|error| CompareError::content(&path, &error))?;
        serde_json::from_str(&text).map_err(|error| CompareError::content(&path, &error))
    }

    /// The method that the others are tested against.
    #[must_use]
    pub fn reference(&self) -> Option<&MethodResult> {
        let name = self.reference.as_ref()?;
        self.methods.iter().find(|method| method.name == *name)
    }

    /// Every method without a rank as `METHOD: why`, with how many clients its scores are of where some are missing.
    #[must_use]
    pub fn unranked(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let of = |method: &MethodResult| {
            let standing = &method.standing;
            let mut text = format!("{}: {}", method.title, standing.unranked.as_ref()?);
            if let Some((scored, tested)) = standing.shortfall() {
                text.push_str(&format!("; {scored} of {tested} clients scored over all its runs"));
                let own = method.metrics.get("accuracy").and_then(|result| result.mean);
                if let (Some(own), Some(all)) = (own, standing.accuracy_all) {
                    text.push_str(&format!(
                        ", accuracy {} over those, {} if the others count as wrong",
                        percent(own),
                        percent(all)
                    ));
                }
            }
            Some(text)
        };
        self.methods.iter().filter_map(of).collect()
    }

    /// The seeds that differences are of: all of them, or, where runs are missing, as many as the method with most has.
    #[must_use]
    pub fn paired_seeds(&self) -> usize {
        let most = self.methods.iter().map(|method| method.runs.len()).max();
        if self.missing.is_empty() { self.seeds.len() } else { most.unwrap_or(0) }
    }

    /// The runs that are not complete yet, a line a method: `METHOD: seeds 2, 3`.
    #[must_use]
    pub fn missing_lines(&self) -> Vec<String> {
        let of = |method: &MethodResult| {
            let own = self.missing.iter().filter(|run| run.method == method.name);
            let seeds: Vec<String> = own.map(|run| run.seed.to_string()).collect();
            let plural = if seeds.len() == 1 { "" } else { "s" };
            (!seeds.is_empty()).then(|| format!("{}: seed{plural} {}", method.title, seeds.join(", ")))
        };
        self.methods.iter().filter_map(of).collect()
    }

    /// Every failed run as `METHOD seed N: why`.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let of = |method: &MethodResult| -> Vec<String> {
            let failures = method.failures.iter();
            failures
                .map(|failed| format!("{} seed {}: {}", method.name, failed.seed, failed.reason))
                .collect()
        };
        self.methods.iter().flat_map(of).collect()
    }
}
