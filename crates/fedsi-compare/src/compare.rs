//! A comparison from its specification to its results.

use std::path::{Path, PathBuf};

use fedsi_fl::Simulation;
use fedsi_run::{ComputeDevice, Origin, RunError, Summary, data_label, dataset_name};
use toml::Value;

use crate::CompareError;
use crate::comparison::{Comparison, TuningProtocol};
use crate::external::ExternalMethod;
use crate::external_runs::{keep_external, read_external};
use crate::folder::CompareFolder;
use crate::marker::marker;
use crate::plan::{PlannedRun, RunState, reference, seeds as seeds_from};
use crate::pool::{self, CompareObserver, DataCache, FileDigests};
use crate::runs::{RunBatch, RunReport, side_by_side};
use crate::spec::CompareSpec;
use crate::summarise::{ComparedMethod, ComparedRun, Finished, Outcome, summarise};
use crate::table::check_columns;
use crate::tune::{COMMON, TunedValues, Tuner, grid, protocol};

/// A comparison whose runs are over: still to be reported and written, in a folder that is still held.
pub struct FinishedComparison {
    /// Where it is.
    pub folder: CompareFolder,
    /// What was found.
    pub comparison: Comparison,
}

/// Compares: tunes where asked to, makes the runs that are not there yet, and sums up. Everything that can be known
/// to be wrong is found before anything is written. A run that fails is named in the comparison.
///
/// # Errors
/// See [`CompareError`].
pub fn compare(
    spec: &CompareSpec<'_>,
    observer: &dyn CompareObserver,
    report: &RunReport<'_>,
) -> Result<FinishedComparison, CompareError> {
    let Some(&first) = spec.methods.first() else {
        return Err(CompareError::NoMethods);
    };
    let base = (spec.settings)(&[("method", Value::String(first.name.to_owned()))])?;
    let seeds = seeds_from(base.seed, spec.seeds)?;
    let reference = reference(&spec.methods, &spec.with, spec.reference)?;
    check_columns(&spec.columns)?;
    ExternalMethod::check_all(&spec.with, seeds.len())?;
    let untuned = vec![TunedValues::default(); spec.methods.len()];
    let planned = plan(spec, &seeds, &untuned)?;
    let path =
        spec.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("compare-{}", data_label(&base))));
    let existing = CompareFolder::inspect(&path)?;
    let mut undecided: Vec<&str> = Vec::new();
    if spec.tune.is_some() {
        undecided.extend(planned.iter().flat_map(|run| grid(run.method)).map(|(key, _)| key));
        undecided.extend(COMMON.map(|(key, _)| key));
    }
    let files = FileDigests::default();
    let any_missing = any_missing(&planned, &path, spec.force, &undecided, &files)?;
    let tuning = spec.tune.as_ref().map(|tune| protocol(&base, tune));
    let tune_seeds = tuning.as_ref().map(|protocol| seeds_from(protocol.seed, protocol.seeds)).transpose()?;
    let data = DataCache::default();
    if any_missing {
        check_methods(&planned, seeds[0], tuning.as_ref(), spec, &data)?;
    }
    let external = read_external(&spec.with, &planned, &seeds, &data)?;
    let folder = match existing {
        Some(folder) => folder,
        None => CompareFolder::create(&path)?,
    };
    if base.privacy.is_on() {
        fedsi_run::for_owner_only(folder.path())?;
    }
    let (marker, earlier) = (marker(spec, &base, &seeds), folder.side_by_side());
    folder.write_marker(&marker, earlier)?;

    let tuned = match &tuning {
        None => untuned,
        Some(protocol) => {
            let workers = side_by_side(spec.jobs, planned.iter(), &data)?;
            let threads = pool::threads(base.threads);
            let path = folder.path();
            let settings = spec.settings;
            let (data, files) = (&data, &files);
            let seeds = tune_seeds.unwrap_or_default();
            let tuner =
                Tuner { settings, protocol, seeds, files, folder: path, data, observer, workers, threads };
            tuner.tune(&spec.methods)?
        }
    };
    let planned = plan(spec, &seeds, &tuned)?;
    let batch = RunBatch {
        folder: folder.path(),
        planned: &planned,
        force: spec.force,
        jobs: spec.jobs,
        stage: "comparing",
        begin: &|workers| {
            folder.remove_results()?;
            folder.write_marker(&marker, workers.max(earlier))
        },
        after: &|_, _, _, _| Ok(()),
        report,
    };
    let (outcomes, workers) = batch.make_on(&data, observer)?;
    same_data(folder.path(), &planned, &outcomes)?;
    let jobs = workers.max(earlier);
    let mut runs = planned.iter().zip(outcomes).map(|(run, outcome)| ComparedRun {
        seed: run.seed,
        folder: run.folder.clone(),
        outcome: outcome.map_or_else(Outcome::Failed, |summary| Outcome::Complete(Box::new(summary))),
    });
    let mut methods: Vec<ComparedMethod> = Vec::with_capacity(spec.methods.len() + spec.with.len());
    for (method, tuned) in spec.methods.iter().zip(tuned) {
        methods.push(ComparedMethod::of(method, tuned, runs.by_ref().take(seeds.len()).collect()));
    }
    for (method, read) in spec.with.iter().zip(external) {
        methods.push(ComparedMethod::external(method, keep_external(method, read, folder.path())?));
    }
    let comparison = summarise(Finished {
        folder: folder.path(),
        methods,
        reference,
        dataset: dataset_name(&base),
        size: base.data.size.to_string(),
        rounds: base.rounds,
        seeds,
        jobs,
        columns: spec.columns.clone(),
        tuning,
    });
    Ok(FinishedComparison { folder, comparison })
}

/// A run for each method and seed, methods first.
fn plan(
    spec: &CompareSpec<'_>,
    seeds: &[u64],
    tuned: &[TunedValues],
) -> Result<Vec<PlannedRun>, CompareError> {
    let mut all = Vec::with_capacity(seeds.len() * spec.methods.len());
    for (&method, tuned) in spec.methods.iter().zip(tuned) {
        for &seed in seeds {
            all.push(PlannedRun::new(method, seed, &tuned.settings(), spec.settings)?);
        }
    }
    Ok(all)
}

/// Whether runs are still to be made.
fn any_missing(
    planned: &[PlannedRun],
    path: &Path,
    force: bool,
    undecided: &[&str],
    files: &FileDigests,
) -> Result<bool, CompareError> {
    let mut any = false;
    for run in planned {
        any |= !matches!(run.state(path, force, undecided, files)?, RunState::Finished { .. });
    }
    Ok(any)
}

/// Opens the first seed's data and builds every method's federation on it, so that what does not fit is known
/// before anything is written.
fn check_methods(
    planned: &[PlannedRun],
    seed: u64,
    tuning: Option<&TuningProtocol>,
    spec: &CompareSpec<'_>,
    data: &DataCache,
) -> Result<(), CompareError> {
    if let Some(run) = planned.first() {
        ComputeDevice::open(run.config.device)?;
    }
    for run in planned.iter().filter(|run| run.seed == seed) {
        let federation = data.open(&run.config)?.federation;
        let config = run.config.clone().with_threads(1);
        Simulation::new(&config, federation.clone())?;
        if let Some(tuning) = tuning {
            let held_out = [("validation.fraction", Value::Float(tuning.held_out))];
            let trial = PlannedRun::new(run.method, seed, &held_out, spec.settings)?;
            Simulation::new(&trial.config.with_threads(1), federation)?;
        }
    }
    Ok(())
}

/// All runs that are compared must have read the same files: those that were reused where the data is away, and those
/// that were made while it changed.
fn same_data(
    folder: &Path,
    planned: &[PlannedRun],
    outcomes: &[Result<Summary, String>],
) -> Result<(), CompareError> {
    let mut first: Option<(PathBuf, Origin)> = None;
    for run in planned.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(run, _)| run) {
        let path = folder.join(&run.folder);
        let Some(origin) = Origin::read(&path).map_err(RunError::from)? else { continue };
        match &first {
            None => first = Some((path, origin)),
            Some((other, first)) => {
                if let Some(change) = first.data.changed_file(&origin.data.files) {
                    let (one, other) = (other.clone(), path);
                    return Err(CompareError::OtherData { one, other, change });
                }
            }
        }
    }
    Ok(())
}
