//! Runs as statistics.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_fl::Checked;
use fedsi_fl::methods::Method;
use fedsi_run::{Summary, dataset_name};

use crate::bootstrap::add_intervals;
use crate::client_sums::RunSums;
use crate::comparison::{Comparison, Failure, MethodResult, RunResult, TuningProtocol};
use crate::plan::PlannedRun;
use crate::standing::standings;
use crate::statistics::{metric_results, metrics};
use crate::tune::TunedValues;

/// What a comparison is made of once its runs are over.
pub(crate) struct Finished<'a> {
    /// Its folder.
    pub(crate) folder: &'a Path,
    pub(crate) methods: &'a [&'static Method],
    /// The place of the method that others are tested against.
    pub(crate) reference: usize,
    pub(crate) base: &'a Checked,
    pub(crate) seeds: Vec<u64>,
    pub(crate) jobs: usize,
    pub(crate) tuning: Option<TuningProtocol>,
    pub(crate) tuned: Vec<TunedValues>,
    /// Methods first, a run for each seed.
    pub(crate) planned: &'a [PlannedRun],
    pub(crate) outcomes: Vec<Result<Summary, String>>,
}

/// Sums up. Reads the predictions of every run, one run at a time.
pub(crate) fn summarise(finished: Finished<'_>) -> Comparison {
    let Finished { folder, methods, reference, base, seeds, jobs, tuning, tuned, planned, outcomes } =
        finished;
    let mut summaries: Vec<Vec<Summary>> = vec![Vec::new(); methods.len()];
    let mut failures: Vec<Vec<Failure>> = vec![Vec::new(); methods.len()];
    let mut sums: Vec<BTreeMap<u64, RunSums>> = vec![BTreeMap::new(); methods.len()];
    for (index, (run, outcome)) in planned.iter().zip(outcomes).enumerate() {
        let method = index / seeds.len();
        match outcome {
            Ok(mut summary) => {
                match RunSums::read(&folder.join(&run.folder), &mut summary) {
                    Ok(own) => drop(sums[method].insert(run.seed, own)),
                    Err(reason) => tracing::warn!(
                        "{}: predictions.safetensors cannot be used, so that there is no bootstrap interval: {reason}",
                        folder.join(&run.folder).display()
                    ),
                }
                summaries[method].push(summary);
            }
            Err(reason) => failures[method].push(Failure { seed: run.seed, reason }),
        }
    }
    let metrics = summaries.iter().flatten().next().map(|run| metrics(&run.scores)).unwrap_or_default();
    let mut results = metric_results(&metrics, &summaries, Some(reference));
    add_intervals(&mut results, &sums, Some(reference));
    let results = results.into_iter().zip(standings(&summaries));
    let all = methods.iter().zip(summaries).zip(failures).zip(results).zip(tuned);
    let all = all.map(|((((method, runs), failures), (metric_results, standing)), tuned)| MethodResult {
        name: method.name.to_owned(),
        title: method.title.to_owned(),
        source: method.source.to_owned(),
        evaluated: method.evaluated.to_owned(),
        runs: runs.iter().map(|summary| result(method, summary)).collect(),
        failures,
        standing,
        metrics: metric_results,
        tuned: tuned.values,
        trials: tuned.trials,
    });
    Comparison {
        dataset: dataset_name(base),
        size: base.data.size.to_string(),
        rounds: base.rounds,
        seeds,
        jobs,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        metrics,
        reference: methods.get(reference).map(|method| method.name.to_owned()),
        tuning,
        methods: all.collect(),
    }
}

fn result(method: &Method, summary: &Summary) -> RunResult {
    RunResult {
        seed: summary.seed,
        folder: format!("{}-s{}", method.name, summary.seed),
        scores: summary.scores,
        coverage: Some(summary.coverage()),
        seconds: summary.seconds.total,
        bytes: summary.bytes,
        peak_rss_bytes: summary.peak_rss_bytes,
    }
}
