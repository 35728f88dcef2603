//! Runs as statistics.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_fl::methods::Method;
use fedsi_run::Summary;

use crate::bootstrap::add_intervals;
use crate::client_sums::RunSums;
use crate::comparison::{Comparison, Failure, MethodResult, MissingRun, RunResult, TuningProtocol};
use crate::external::ExternalMethod;
use crate::standing::{Standing, standings};
use crate::statistics::{Metric, MetricResult, metric_results, metrics};
use crate::tune::TunedValues;

/// What a comparison is made of once its runs are over.
pub(crate) struct Finished<'a> {
    /// Its folder.
    pub(crate) folder: &'a Path,
    /// What is compared, in the order of the tables.
    pub(crate) methods: Vec<ComparedMethod>,
    /// The place of the method that others are tested against.
    pub(crate) reference: usize,
    pub(crate) dataset: String,
    pub(crate) size: String,
    pub(crate) rounds: usize,
    pub(crate) seeds: Vec<u64>,
    pub(crate) jobs: usize,
    pub(crate) columns: Vec<String>,
    pub(crate) tuning: Option<TuningProtocol>,
}

/// A method, or another tool, with what became of its runs.
pub(crate) struct ComparedMethod {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) evaluated: String,
    /// The files of another tool's.
    pub(crate) external: Option<String>,
    pub(crate) tuned: TunedValues,
    /// By seed.
    pub(crate) runs: Vec<ComparedRun>,
}

impl ComparedMethod {
    pub(crate) fn of(method: &Method, tuned: TunedValues, runs: Vec<ComparedRun>) -> Self {
        Self {
            name: method.name.to_owned(),
            title: method.title.to_owned(),
            source: method.source.to_owned(),
            evaluated: method.evaluated.to_owned(),
            external: None,
            tuned,
            runs,
        }
    }

    pub(crate) fn external(method: &ExternalMethod, runs: Vec<ComparedRun>) -> Self {
        Self {
            name: method.name.clone(),
            title: method.name.clone(),
            source: method.file.clone(),
            evaluated: "another tool's predictions of the same test rows".to_owned(),
            external: Some(method.file.clone()),
            tuned: TunedValues::default(),
            runs,
        }
    }
}

/// What became of a run.
pub(crate) struct ComparedRun {
    pub(crate) seed: u64,
    /// Its folder, within that of the comparison.
    pub(crate) folder: String,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Complete(Box<Summary>),
    Failed(String),
    Missing,
}

/// Sums up. Reads the predictions of every run, one run at a time.
pub(crate) fn summarise(finished: Finished<'_>) -> Comparison {
    let Finished { folder, methods, reference, dataset, size, rounds, seeds, jobs, columns, tuning } =
        finished;
    let mut summaries: Vec<Vec<Summary>> = vec![Vec::new(); methods.len()];
    let mut sums: Vec<BTreeMap<u64, RunSums>> = vec![BTreeMap::new(); methods.len()];
    let mut missing = Vec::new();
    let mut described = Vec::with_capacity(methods.len());
    for (place, method) in methods.into_iter().enumerate() {
        let (mut failures, mut folders) = (Vec::new(), Vec::new());
        for ComparedRun { seed, folder: name, outcome } in method.runs {
            match outcome {
                Outcome::Complete(mut summary) => {
                    let path = folder.join(&name);
                    match RunSums::read(&path, &mut summary) {
                        Ok(own) => drop(sums[place].insert(seed, own)),
                        Err(reason) => tracing::warn!(
                            "{}: predictions.safetensors cannot be used, so that there is no bootstrap interval: {reason}",
                            path.display()
                        ),
                    }
                    summaries[place].push(*summary);
                    folders.push(name);
                }
                Outcome::Failed(reason) => failures.push(Failure { seed, reason }),
                Outcome::Missing => missing.push(MissingRun { method: method.name.clone(), seed }),
            }
        }
        described.push(Described {
            name: method.name,
            title: method.title,
            source: method.source,
            evaluated: method.evaluated,
            external: method.external,
            tuned: method.tuned,
            failures,
            folders,
        });
    }
    let metrics = summaries.iter().flatten().next().map(|run| metrics(&run.scores)).unwrap_or_default();
    let mut results = metric_results(&metrics, &summaries, Some(reference));
    add_intervals(&mut results, &sums, Some(reference));
    let reference = described.get(reference).map(|method| method.name.clone());
    let results = results.into_iter().zip(standings(&summaries));
    let all = described.into_iter().zip(summaries).zip(results);
    let all = all.map(|((method, runs), (metric_results, standing))| {
        let is_external = method.external.is_some();
        let runs =
            runs.iter().zip(method.folders).map(|(summary, folder)| result(summary, folder, is_external));
        MethodResult {
            name: method.name,
            title: method.title,
            source: method.source,
            evaluated: method.evaluated,
            external: method.external,
            runs: runs.collect(),
            failures: method.failures,
            standing,
            metrics: metric_results,
            tuned: method.tuned.values,
            trials: method.tuned.trials,
        }
    });
    let methods = all.collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Comparison {
        dataset,
        size,
        rounds,
        seeds,
        jobs,
        version,
        metrics,
        reference,
        columns,
        missing,
        tuning,
        methods,
    }
}

/// What runs of several methods on the same seeds say, from their summaries alone.
#[derive(Clone, Debug)]
pub struct SummaryStatistics {
    /// The scores, the main one first.
    pub metrics: Vec<Metric>,
    /// Of each method: means, ranks, and differences from the reference by a score's key.
    pub results: Vec<BTreeMap<String, MetricResult>>,
    /// Of each method: whether it can be ranked.
    pub standings: Vec<Standing>,
}

impl SummaryStatistics {
    /// Of the runs of each method, tested against the `reference`-th. Bootstrap intervals are of accuracy, Brier score and
    /// NLL: of other scores they need predictions.
    #[must_use]
    pub fn of(methods: &[Vec<Summary>], reference: Option<usize>) -> Self {
        let metrics = methods.iter().flatten().next().map(|run| metrics(&run.scores)).unwrap_or_default();
        let mut results = metric_results(&metrics, methods, reference);
        let sums = |runs: &Vec<Summary>| -> BTreeMap<u64, RunSums> {
            runs.iter().filter_map(|run| Some((run.seed, RunSums::of_summary(run)?))).collect()
        };
        add_intervals(&mut results, &methods.iter().map(sums).collect::<Vec<_>>(), reference);
        Self { metrics, results, standings: standings(methods) }
    }
}

/// A method without its runs.
struct Described {
    name: String,
    title: String,
    source: String,
    evaluated: String,
    external: Option<String>,
    tuned: TunedValues,
    failures: Vec<Failure>,
    /// Of complete runs.
    folders: Vec<String>,
}

fn result(summary: &Summary, folder: String, is_external: bool) -> RunResult {
    RunResult {
        seed: summary.seed,
        folder,
        scores: summary.scores,
        coverage: Some(summary.coverage()),
        seconds: (!is_external).then_some(summary.seconds.total),
        bytes: (!is_external).then_some(summary.bytes),
        peak_rss_bytes: summary.peak_rss_bytes,
    }
}
