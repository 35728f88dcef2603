//! Runs that are planned below one folder: which are there, and those that are not, made side by side.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use fedsi_data::{DataSpec, Federation, PartitionSpec};
use fedsi_fl::Checked;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::cost::{WorkEstimate, memory_bytes};
use fedsi_run::{Observer, RunError, RunFolder, Summary, run};

use crate::CompareError;
use crate::memory::runs_that_fit;
use crate::plan::{PlannedRun, RunState};
use crate::pool::{self, CompareObserver, DataCache, FileDigests};

/// Makes the page of a run that is complete but for its summary; a failure is logged and stops nothing.
pub type RunReport<'a> = dyn Fn(&Path, &Summary) -> Result<(), Box<dyn Error + Send + Sync>> + Sync + 'a;

/// What else is done with a run that is complete in its folder; why it cannot be done, in words.
pub type AfterRun<'a> =
    dyn Fn(&PlannedRun, &Path, &Summary, &dyn Federation) -> Result<(), String> + Sync + 'a;

/// Runs below one folder, and how they are made.
pub struct RunBatch<'a> {
    /// The folder that holds a folder for each.
    pub folder: &'a Path,
    /// The runs.
    pub planned: &'a [PlannedRun],
    /// Whether finished runs with other settings are replaced.
    pub force: bool,
    /// Runs side by side; 0: as many as cores and memory allow.
    pub jobs: usize,
    /// What the observer calls this.
    pub stage: &'a str,
    /// Called once before the first run is made, with how many will be at work side by side; not where all are there.
    pub begin: &'a (dyn Fn(usize) -> Result<(), CompareError> + Sync),
    /// Called after each run that is made, with its folder, summary and data: part of its work.
    pub after: &'a AfterRun<'a>,
    /// Makes the page of a run.
    pub report: &'a RunReport<'a>,
}

/// A run's summary, or why there is none.
pub type RunOutcome = Result<Summary, String>;

/// What became of each planned run, in order, and how many were at work side by side.
pub type Outcomes = (Vec<RunOutcome>, usize);

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
    /// The place of its data among those of the plan.
    data: usize,
}

impl RunBatch<'_> {
    /// Makes the runs that are not there yet: dataset by dataset and seed by seed, so that they share open data, and within a
    /// seed the longest first, so that none is left to run alone for long at the end. A run that fails stops no other.
    ///
    /// # Errors
    /// A folder that holds a run with other settings, data that cannot be opened, a stop that was asked for.
    pub fn make(&self, observer: &dyn CompareObserver) -> Result<Outcomes, CompareError> {
        self.make_on(&DataCache::default(), observer)
    }

    /// The same on data that is open already.
    pub(crate) fn make_on(
        &self,
        data: &DataCache,
        observer: &dyn CompareObserver,
    ) -> Result<Outcomes, CompareError> {
        let (mut outcomes, mut jobs) = self.states()?;
        if jobs.is_empty() {
            return Ok((outcomes, 0));
        }
        let reused = self.planned.len() - jobs.len();
        estimate(&mut jobs, data)?;
        let total = |job: &Job<'_>| job.work.total(job.run.config.rounds);
        jobs.sort_by_key(|job| (job.data, job.run.seed, std::cmp::Reverse(total(job))));
        let workers = side_by_side(self.jobs, jobs.iter().map(|job| job.run), data)?.min(jobs.len());
        (self.begin)(workers)?;
        let threads = pool::threads(jobs[0].run.config.threads);
        tracing::info!(runs = jobs.len(), reused, side_by_side = workers, "{}", self.stage);
        observer.stage(self.stage, jobs.len(), reused, jobs.iter().map(total).sum());
        let made = pool::run_jobs(
            &jobs,
            workers,
            threads,
            || observer.wants_to_stop(),
            |job, threads| {
                let name = job.run.name();
                observer.started(&name);
                let outcome = self.make_one(job, threads, data, observer);
                observer.finished(&name, outcome.as_ref().map(|_| ()).map_err(String::as_str));
                outcome
            },
        );
        if observer.wants_to_stop() {
            return Err(CompareError::Interrupted { path: self.folder.to_owned() });
        }
        for (job, outcome) in jobs.iter().zip(made) {
            outcomes[job.index] = outcome;
        }
        Ok((outcomes, workers))
    }

    /// The summaries of the runs that are complete, in the order of the plan; makes nothing.
    ///
    /// # Errors
    /// A folder that holds a run with other settings, a summary that cannot be read.
    pub fn complete(&self) -> Result<Vec<Option<Summary>>, CompareError> {
        Ok(self.states()?.0.into_iter().map(Result::ok).collect())
    }

    /// The summaries of the runs that are there, and the others to be made.
    fn states(&self) -> Result<(Vec<RunOutcome>, Vec<Job<'_>>), CompareError> {
        let mut outcomes: Vec<RunOutcome> = Vec::with_capacity(self.planned.len());
        let mut jobs = Vec::new();
        let files = FileDigests::default();
        for (index, run) in self.planned.iter().enumerate() {
            let path = self.folder.join(&run.folder);
            let resume = match run.state(self.folder, self.force, &[], &files)? {
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
            jobs.push(Job { index, run, resume, replace, work: WorkEstimate { round: 1, end: 1 }, data: 0 });
            outcomes.push(Err("it never ran".to_owned()));
        }
        Ok((outcomes, jobs))
    }

    /// One run with all its files, as `fedsi run` leaves them.
    fn make_one(
        &self,
        job: &Job<'_>,
        threads: usize,
        data: &DataCache,
        observer: &dyn CompareObserver,
    ) -> Result<Summary, String> {
        // Names the run in what is logged of it.
        let _span = tracing::error_span!("run", name = job.run.name()).entered();
        let config = &job.run.config;
        let path = self.folder.join(&job.run.folder);
        let data = data.open(config).map_err(|error| error.to_string())?;
        let federation = Arc::clone(&data.federation);
        let made = || {
            let mut progress = RunProgress { observer, work: job.work };
            // What is there is this run, begun, or one that may be replaced: `state` saw to that. The config is written as
            // it was asked for; how many threads there are for it just now is no part of it.
            let own = config.clone().with_threads(threads);
            let completed = if job.resume {
                run::resume_on(&own, data, &RunFolder::reopen(&path)?, &mut progress, self.report)?
            } else {
                // Where nothing was when the comparison began, nothing is replaced that somebody made meanwhile.
                let folder = RunFolder::claim(&path, job.replace, config)?;
                run::run_on(&own, data, folder, &mut progress, self.report)?
            };
            if let Err(reason) = completed.report {
                tracing::warn!("{} has no report: {reason}", path.display());
            }
            Ok(completed.summary)
        };
        let summary = made().map_err(|error: RunError| error.to_string())?;
        (self.after)(job.run, &path, &summary, federation.as_ref())?;
        Ok(summary)
    }
}

/// Fills in how much work each run is, and which data it is on.
fn estimate(jobs: &mut [Job<'_>], data: &DataCache) -> Result<(), CompareError> {
    let mut sources: Vec<(DataSpec, PartitionSpec, usize)> = Vec::new();
    for job in jobs {
        let config = &job.run.config;
        let same = |source: &(DataSpec, PartitionSpec, usize)| {
            source.0 == config.data && source.1 == config.partition
        };
        job.data = match sources.iter().position(same) {
            Some(place) => place,
            None => {
                let clients = data.open(config)?.federation.clients();
                sources.push((config.data.clone(), config.partition.clone(), clients));
                sources.len() - 1
            }
        };
        job.work = WorkEstimate::of(config, sources[job.data].2);
    }
    Ok(())
}

/// How many runs are at work side by side: as asked for, or what cores and memory allow for the largest of them.
pub(crate) fn side_by_side<'a>(
    wanted: usize,
    runs: impl Iterator<Item = &'a PlannedRun>,
    data: &DataCache,
) -> Result<usize, CompareError> {
    if wanted > 0 {
        return Ok(wanted);
    }
    let (mut largest, mut cores) = (0, 1);
    let mut seen: Vec<&Checked> = Vec::new();
    for run in runs {
        let config = &run.config;
        let same = |other: &&&Checked| other.data == config.data && other.partition == config.partition;
        // Other seeds' runs are as large.
        if seen.iter().find(same).is_some_and(|first| first.seed != config.seed) {
            continue;
        }
        seen.push(config);
        cores = pool::threads(config.threads);
        let federation = data.open(config)?.federation;
        largest = largest.max(memory_bytes(config, federation.as_ref(), 1)?);
    }
    Ok(cores.min(runs_that_fit(largest)))
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
