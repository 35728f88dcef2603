//! A comparison from its specification to its results.

use std::error::Error;
use std::path::{Path, PathBuf};

use fedsi_fl::Simulation;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::cost::{WorkEstimate, memory_bytes};
use fedsi_run::{
    ComputeDevice, Observer, Origin, RunError, RunFolder, Summary, data_label, dataset_name, run,
};
use toml::Value;

use crate::CompareError;
use crate::comparison::{Comparison, TuningProtocol};
use crate::external::ExternalMethod;
use crate::external_runs::{keep_external, read_external};
use crate::folder::CompareFolder;
use crate::marker::marker;
use crate::memory::runs_that_fit;
use crate::plan::{PlannedRun, RunState, reference, seeds};
use crate::pool::{self, CompareObserver, DataCache, FileDigests};
use crate::spec::CompareSpec;
use crate::summarise::{ComparedMethod, ComparedRun, Finished, Outcome, summarise};
use crate::table::check_columns;
use crate::tune::{COMMON, TunedValues, Tuner, grid, protocol};

/// Makes the page of a run that is complete but for its summary; a failure is logged and stops nothing.
pub type RunReport<'a> = dyn Fn(&Path, &Summary) -> Result<(), Box<dyn Error + Send + Sync>> + Sync + 'a;

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
    let seeds = seeds(base.seed, spec.seeds)?;
    let reference = reference(&spec.methods, &spec.with, spec.reference)?;
    check_columns(&spec.columns)?;
    ExternalMethod::check_all(&spec.with, seeds.len())?;
    let untuned = vec![TunedValues::default(); spec.methods.len()];
    let planned = plan(spec, &seeds, &untuned)?;
    let path =
        spec.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("compare-{}", data_label(&base))));
    let existing = CompareFolder::inspect(&path)?;
    let mut undecided: Vec<&str> = Vec::new();
    if spec.tune {
        undecided.extend(planned.iter().flat_map(|run| grid(run.method)).map(|(key, _)| key));
        undecided.extend(COMMON.map(|(key, _)| key));
    }
    let files = FileDigests::default();
    let any_missing = any_missing(&planned, &path, spec.force, &undecided, &files)?;
    let tuning = spec.tune.then(|| protocol(&base, spec.tune_rounds));
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
            let workers = workers(spec, &planned, &data)?;
            let threads = pool::threads(base.threads);
            let path = folder.path();
            let settings = spec.settings;
            let (data, files) = (&data, &files);
            let tuner = Tuner { settings, protocol, files, folder: path, data, observer, workers, threads };
            tuner.tune(&spec.methods)?
        }
    };
    let planned = plan(spec, &seeds, &tuned)?;
    let begin = |workers: usize| folder.write_marker(&marker, workers.max(earlier));
    let (outcomes, workers) = run_missing(spec, &planned, &folder, &data, observer, report, &begin)?;
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

/// How many runs are at work side by side: as asked for, or what cores and memory allow for the largest of them.
fn workers(spec: &CompareSpec<'_>, runs: &[PlannedRun], data: &DataCache) -> Result<usize, CompareError> {
    let Some(one) = runs.first() else { return Ok(1) };
    let cores = pool::threads(one.config.threads);
    if spec.jobs > 0 {
        return Ok(spec.jobs);
    }
    let federation = data.open(&one.config)?.federation;
    let mut largest = 0;
    for run in runs.iter().filter(|run| run.seed == one.seed) {
        largest = largest.max(memory_bytes(&run.config, federation.as_ref(), 1)?);
    }
    Ok(cores.min(runs_that_fit(largest)))
}

/// A run that is to be made.
struct Job<'a> {
    /// Its place in the plan.
    index: usize,
    run: &'a PlannedRun,
    /// Whether its folder holds it, begun.
    resume: bool,
    /// Whether its folder holds something to be replaced.
    replace: bool,
    work: WorkEstimate,
}

/// What became of each planned run, in order, and how many were at work side by side.
type Outcomes = (Vec<Result<Summary, String>>, usize);

/// Makes the runs that are not there yet: seed by seed, so that they share open data, and within a seed the longest
/// first, so that none is left to run alone for long at the end. `begin` receives how many are at work side by side.
fn run_missing(
    spec: &CompareSpec<'_>,
    planned: &[PlannedRun],
    folder: &CompareFolder,
    data: &DataCache,
    observer: &dyn CompareObserver,
    report: &RunReport<'_>,
    begin: &dyn Fn(usize) -> Result<(), CompareError>,
) -> Result<Outcomes, CompareError> {
    let mut outcomes: Vec<Result<Summary, String>> = Vec::with_capacity(planned.len());
    let mut jobs = Vec::new();
    // Asked again now that the folder is held: what was found before may have changed.
    let files = FileDigests::default();
    for (index, run) in planned.iter().enumerate() {
        let path = folder.path().join(&run.folder);
        let resume = match run.state(folder.path(), spec.force, &[], &files)? {
            RunState::Finished { summary, note } => {
                if let Some(note) = note {
                    tracing::warn!("{}: {note}", path.display());
                }
                if summary.version != env!("CARGO_PKG_VERSION") {
                    tracing::warn!("{} was made by fedsi {}", path.display(), summary.version);
                }
                outcomes.push(Ok(*summary));
                continue;
            }
            RunState::Outdated { reason } => {
                tracing::warn!("{} is made again: {reason}", path.display());
                false
            }
            RunState::Unfinished => true,
            RunState::Missing => false,
        };
        let replace = path.join("config.toml").exists();
        jobs.push(Job { index, run, resume, replace, work: WorkEstimate { round: 1, end: 1 } });
        outcomes.push(Err("it never ran".to_owned()));
    }
    if jobs.is_empty() {
        same_data(folder.path(), planned, &outcomes)?;
        return Ok((outcomes, 0));
    }
    folder.remove_results()?;
    let clients = data.open(&jobs[0].run.config)?.federation.clients();
    for job in &mut jobs {
        job.work = WorkEstimate::of(&job.run.config, clients);
    }
    let total = |job: &Job<'_>| job.work.total(job.run.config.rounds);
    jobs.sort_by_key(|job| (job.run.seed, std::cmp::Reverse(total(job))));
    let workers = workers(spec, planned, data)?.min(jobs.len());
    begin(workers)?;
    let threads = pool::threads(jobs[0].run.config.threads);
    tracing::info!(
        runs = jobs.len(),
        reused = planned.len() - jobs.len(),
        side_by_side = workers,
        "comparing"
    );
    observer.stage("comparing", jobs.len(), planned.len() - jobs.len(), jobs.iter().map(total).sum());
    let made = pool::run_jobs(
        &jobs,
        workers,
        threads,
        || observer.wants_to_stop(),
        |job, threads| {
            let name = job.run.name();
            observer.started(&name);
            let outcome = run_one(job, threads, folder.path(), data, observer, report);
            observer.finished(&name, outcome.as_ref().map(|_| ()).map_err(String::as_str));
            outcome
        },
    );
    if observer.wants_to_stop() {
        return Err(CompareError::Interrupted { path: folder.path().to_owned() });
    }
    for (job, outcome) in jobs.iter().zip(made) {
        outcomes[job.index] = outcome;
    }
    same_data(folder.path(), planned, &outcomes)?;
    Ok((outcomes, workers))
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

/// One run with all its files, as `fedsi run` leaves them.
fn run_one(
    job: &Job<'_>,
    threads: usize,
    parent: &Path,
    data: &DataCache,
    observer: &dyn CompareObserver,
    report: &RunReport<'_>,
) -> Result<Summary, String> {
    // Names the run in what is logged of it.
    let _span = tracing::error_span!("run", name = job.run.name()).entered();
    let config = &job.run.config;
    let path = parent.join(&job.run.folder);
    let made = || {
        let data = data.open(config)?;
        let mut progress = RunProgress { observer, work: job.work };
        // What is there is this run, begun, or one that may be replaced: `state` saw to that. The config is written as
        // it was asked for; how many threads there are for it just now is no part of it.
        let own = config.clone().with_threads(threads);
        let completed = if job.resume {
            run::resume_on(&own, data, &RunFolder::reopen(&path)?, &mut progress, report)?
        } else {
            // Where nothing was when the comparison began, nothing is replaced that somebody made meanwhile.
            run::run_on(&own, data, RunFolder::claim(&path, job.replace, config)?, &mut progress, report)?
        };
        if let Err(reason) = completed.report {
            tracing::warn!("{} has no report: {reason}", path.display());
        }
        Ok(completed.summary)
    };
    made().map_err(|error: RunError| error.to_string())
}

/// Reports a run's progress to the observer.
struct RunProgress<'a> {
    observer: &'a dyn CompareObserver,
    work: WorkEstimate,
}

impl Observer for RunProgress<'_> {
    fn round(&mut self, _: &RoundRecord) {
        self.observer.advanced(self.work.round);
    }

    fn wants_to_stop(&self) -> bool {
        self.observer.wants_to_stop()
    }

    fn evaluated(&mut self, clients: usize, total: usize) {
        let done = |clients: usize| self.work.end * clients as u64 / total.max(1) as u64;
        self.observer.advanced(done(clients) - done(clients - 1));
    }
}
