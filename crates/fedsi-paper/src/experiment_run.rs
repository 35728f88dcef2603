//! An experiment from its plan to its folder: what is missing is run, what there is is collected, tested and written down.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fedsi_compare::plan::PlannedRun;
use fedsi_compare::{CompareError, CompareObserver, RunBatch, RunReport};
use fedsi_run::{FolderError, FolderLock, Summary};

use crate::PaperError;
use crate::cells::SettingCells;
use crate::config_file::config_text;
use crate::figures::{Figure, figures};
use crate::page::{page, tables};
use crate::plan::{PaperRun, Plan};
use crate::record::RunRecord;
use crate::results::{RESULTS_FILE, Results};
use crate::strange_inputs;

/// What is to be run, and where.
pub struct ExperimentSpec<'a> {
    /// The runs.
    pub plan: &'a Plan,
    /// The folder that holds a folder for each run; experiments share it.
    pub runs: &'a Path,
    /// The folder for tables and figures.
    pub out: &'a Path,
    /// More results to take runs from.
    pub merge: &'a [PathBuf],
    /// Whether missing runs are made; else what there is is written down.
    pub make: bool,
    /// Runs side by side; 0: as many as cores and memory allow.
    pub jobs: usize,
    /// Whether finished runs with other settings are replaced.
    pub force: bool,
    /// The command that makes all of it again, for the page.
    pub command: &'a str,
}

/// An experiment that is written down.
pub struct FinishedExperiment {
    /// Every run that there is.
    pub results: Results,
    /// Runs that failed, with the reason.
    pub failures: Vec<String>,
    /// Runs that are planned and not there.
    pub missing: usize,
    /// The page.
    pub page: PathBuf,
}

/// Runs what is missing and writes everything down. A run that fails stops no other.
///
/// # Errors
/// See [`PaperError`]. Where it was asked to stop, what is complete is written down first.
pub fn run_experiment(
    spec: &ExperimentSpec<'_>,
    observer: &dyn CompareObserver,
    report: &RunReport<'_>,
) -> Result<FinishedExperiment, PaperError> {
    let plan = spec.plan;
    check_out(spec.out)?;
    let results = earlier(spec)?;
    let pending: Vec<&PaperRun> = plan.runs.iter().filter(|run| is_wanted(spec, &results, run)).collect();
    let results = Mutex::new(results);
    let (made, stopped) = make(spec, &pending, &results, observer, report)?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut failures = Vec::new();
    for (run, outcome) in pending.iter().zip(made) {
        let summary = match outcome {
            Some(Ok(_)) if !is_wanted(spec, &results, run) => continue,
            Some(Ok(summary)) => summary,
            Some(Err(reason)) => {
                failures.push(format!("{}: {reason}", run.planned.name()));
                continue;
            }
            None => continue,
        };
        let folder = spec.runs.join(&run.planned.folder);
        match read_record(run, &folder, &summary, spec.make) {
            Ok(record) => results.add(record),
            Err(error) => failures.push(format!("{}: {error}", run.planned.name())),
        }
    }
    let missing = plan.runs.iter().filter(|run| results.find(run).is_none()).count();
    let page = write(spec, &mut results, &failures)?;
    match stopped {
        Some(error) => Err(error.into()),
        None => Ok(FinishedExperiment { results, failures, missing, page }),
    }
}

/// Whether results lack a run, or what was measured of it in its folder since they were written.
fn is_wanted(spec: &ExperimentSpec<'_>, results: &Results, run: &PaperRun) -> bool {
    results.find(run).is_none_or(|record| {
        run.shows_strange_inputs
            && record.strange_inputs.is_empty()
            && strange_inputs::is_measured(&spec.runs.join(&run.planned.folder))
    })
}

/// What is kept of a run. Where what follows a run was cut off, it is made up for.
fn read_record(
    run: &PaperRun,
    folder: &Path,
    summary: &Summary,
    make: bool,
) -> Result<RunRecord, PaperError> {
    let mut record = RunRecord::read(run, folder, summary)?;
    if run.shows_strange_inputs && make && !strange_inputs::is_measured(folder) {
        strange_inputs::measure_saved(folder)?;
    }
    record.strange_inputs = strange_inputs::read(folder)?;
    Ok(record)
}

/// What the folder and other files have already.
fn earlier(spec: &ExperimentSpec<'_>) -> Result<Results, PaperError> {
    let plan = spec.plan;
    let mut results = Results::new(plan);
    let path = spec.out.join(RESULTS_FILE);
    if let Some(found) = Results::read(&path)? {
        let label = |experiment: &str, partition: &str| format!("{experiment} ({partition})");
        let (found_label, expected) =
            (label(&found.experiment, &found.partition), label(plan.experiment.id(), plan.partition.id()));
        if found_label != expected {
            return Err(PaperError::OtherExperiment { path, found: found_label, expected });
        }
        // All of them, also those that this command did not ask for.
        results.runs = found.runs;
    }
    for path in spec.merge {
        results.merge(&Results::open(path)?, plan);
    }
    for name in results.forget_outdated(plan) {
        tracing::warn!("{name} was made under other defaults: left out");
    }
    Ok(results)
}

/// What became of each run: none where it was not made.
type Made = Vec<Option<Result<Summary, String>>>;

/// Makes the runs that are not there, where that is wanted; where it is asked to stop, what is complete by then, and the
/// error.
fn make(
    spec: &ExperimentSpec<'_>,
    pending: &[&PaperRun],
    results: &Mutex<Results>,
    observer: &dyn CompareObserver,
    report: &RunReport<'_>,
) -> Result<(Made, Option<CompareError>), PaperError> {
    let planned: Vec<PlannedRun> = pending.iter().map(|run| run.planned.clone()).collect();
    // Held until all runs are made.
    let lock = Mutex::new(None);
    let batch = RunBatch {
        folder: spec.runs,
        planned: &planned,
        force: spec.force,
        jobs: spec.jobs,
        stage: spec.plan.experiment.id(),
        begin: &|_| begin(spec.runs, &planned, &lock),
        after: &|run, folder, summary, federation| {
            let Some(run) = pending.iter().find(|own| own.planned.folder == run.folder) else {
                return Ok(());
            };
            let finished = || {
                if run.shows_strange_inputs {
                    strange_inputs::measure(folder, federation)?;
                }
                let record = read_record(run, folder, summary, true)?;
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.add(record);
                // Whoever is stopped, even by a kill, has every run that ended.
                save_results(spec, &mut results)
            };
            finished().map_err(|error: PaperError| error.to_string())
        },
        report,
    };
    let complete = || -> Result<Made, CompareError> {
        Ok(batch.complete()?.into_iter().map(|found| found.map(Ok)).collect())
    };
    if !spec.make {
        return Ok((complete()?, None));
    }
    match batch.make(observer) {
        Ok((outcomes, _)) => Ok((outcomes.into_iter().map(Some).collect(), None)),
        Err(error @ CompareError::Interrupted { .. }) => Ok((complete()?, Some(error))),
        Err(error) => Err(error.into()),
    }
}

/// Makes and takes the folder of runs: after data and settings were found to be good, so that nothing is written where they are not.
fn begin(runs: &Path, planned: &[PlannedRun], lock: &Mutex<Option<FolderLock>>) -> Result<(), CompareError> {
    let unusable = |source| FolderError::CannotBeMade { path: runs.to_owned(), source };
    std::fs::create_dir_all(runs).map_err(unusable)?;
    let Some(taken) = FolderLock::acquire(runs)? else {
        return Err(CompareError::InUse { path: runs.to_owned() });
    };
    *lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    for run in planned {
        if let Some(parent) = runs.join(&run.folder).parent() {
            std::fs::create_dir_all(parent).map_err(unusable)?;
        }
    }
    Ok(())
}

/// Refuses a folder that holds something else.
fn check_out(out: &Path) -> Result<(), PaperError> {
    if !out.exists() || out.join(RESULTS_FILE).exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return Err(FolderError::NotAFolder { path: out.to_owned() }.into());
    }
    let unreadable = |source| FolderError::CannotBeRead { path: out.to_owned(), source };
    let names = std::fs::read_dir(out).map_err(unreadable)?;
    let names = names.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    match names.min() {
        None => Ok(()),
        Some(name) => Err(PaperError::Foreign { path: out.to_owned(), name }),
    }
}

/// Writes `results.json`.
fn save_results(spec: &ExperimentSpec<'_>, results: &mut Results) -> Result<(), PaperError> {
    let out = spec.out;
    std::fs::create_dir_all(out)
        .map_err(|source| FolderError::CannotBeMade { path: out.to_owned(), source })?;
    let path = out.join(RESULTS_FILE);
    // Somebody may have added to it while runs were made.
    if let Some(mut now) = Results::read(&path)? {
        now.forget_outdated(spec.plan);
        results.merge(&now, spec.plan);
    }
    results.write(&path, spec.plan)
}

/// Writes results, tables, figures and the page, and says where that is. Results come first: the rest follows from them.
fn write(
    spec: &ExperimentSpec<'_>,
    results: &mut Results,
    failures: &[String],
) -> Result<PathBuf, PaperError> {
    let (plan, out) = (spec.plan, spec.out);
    save_results(spec, results)?;
    let cells = SettingCells::all(plan, results);
    let put = |name: &str, text: &str| fedsi_run::write_whole(&out.join(name), text.as_bytes());
    put("config.toml", &config_text(plan))?;
    for named in tables(plan, &cells) {
        put(&format!("{}.md", named.name), &named.table.markdown())?;
        put(&format!("{}.tex", named.name), &named.table.latex())?;
    }
    let figures: Vec<Figure> = figures(plan, &cells)?;
    for figure in &figures {
        put(&figure.file, &figure.svg)?;
    }
    put("README.md", &page(plan, &cells, &figures, failures, spec.command))?;
    Ok(out.join("README.md"))
}
