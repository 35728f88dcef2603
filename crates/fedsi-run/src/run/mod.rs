//! A simulation with its files.

mod results;
mod train;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::Federation;
use fedsi_fl::simulation::RoundRecord;
use fedsi_fl::{Checked, Simulation};
use sha2::{Digest as _, Sha256};

use crate::RunError;
use crate::checkpoint::{self, CheckpointError, Progress};
use crate::disk_store::{self, DiskStore};
use crate::files::{write_failed, write_whole};
use crate::folder::RunFolder;
use crate::naming::dataset_name;
use crate::summary::Summary;
use results::{evaluate, save_server};
use train::train;

/// Receives a run's progress: a progress bar, a log, a test.
pub trait Observer {
    /// The data is open; rounds begin.
    fn started(&mut self, _simulation: &Simulation, _rounds: usize) {}
    /// A round is complete.
    fn round(&mut self, _record: &RoundRecord) {}
    /// This many clients of `total` are personalised and evaluated.
    fn evaluated(&mut self, _clients: usize, _total: usize) {}
    /// Whether the run is to stop: asked between rounds and between clients. What is done by then is saved.
    fn wants_to_stop(&self) -> bool {
        false
    }
}

/// Receives nothing.
impl Observer for () {}

/// A run that is complete: all its files are written, `summary.json` last.
#[derive(Clone, Debug)]
pub struct Completed<R> {
    /// What `summary.json` says.
    pub summary: Summary,
    /// What the function that made the report returned. A report that failed does not undo a run.
    pub report: R,
}

/// Trains, evaluates and writes everything, in a folder claimed for it. `report` is called with the folder and the
/// summary when all other files are there, and before `summary.json` says that the run is complete. What the folder held
/// before is untouched unless the data could be opened.
///
/// # Errors
/// See [`RunError`]; one that [is bad input](RunError::is_bad_input) leaves no file behind.
pub fn run<R>(
    config: &Checked,
    folder: RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let started = Instant::now();
    match config.open_data() {
        Ok(data) => start(config, Arc::from(data), folder, observer, started, report),
        Err(error) => {
            folder.abandon();
            Err(error.into())
        }
    }
}

/// The same on data that is open already, as `config` describes it: several runs share one copy.
///
/// # Errors
/// As [`run`].
pub fn run_on<R>(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    start(config, federation, folder, observer, Instant::now(), report)
}

/// Continues a run that stopped, from its newest checkpoint or, where it has none, from the start: the results are those
/// of a run that never stopped, bit for bit. `report` as in [`run`].
///
/// # Errors
/// See [`RunError`]; whatever happens, earlier checkpoints stay.
pub fn resume<R>(
    config: &Checked,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let started = Instant::now();
    let data = config.open_data()?;
    restart(config, Arc::from(data), folder, observer, started, report)
}

/// The same on data that is open already.
///
/// # Errors
/// As [`resume`].
pub fn resume_on<R>(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    restart(config, federation, folder, observer, Instant::now(), report)
}

fn start<R>(
    config: &Checked,
    federation: Arc<dyn Federation>,
    mut folder: RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let mut simulation = match Simulation::new(config, federation) {
        Ok(simulation) => simulation,
        Err(error) => {
            folder.abandon();
            return Err(error.into());
        }
    };
    folder.keep()?;
    store_on_disk(&mut simulation, config, folder.path());
    let summary =
        train_and_evaluate(simulation, config, folder.path(), Progress::default(), observer, started)?;
    complete(config, folder.path(), summary, report)
}

fn restart<R>(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let path = folder.path();
    let mut simulation = Simulation::new(config, federation)?;
    store_on_disk(&mut simulation, config, path);
    let mut progress = Progress::default();
    match checkpoint::latest(path) {
        Ok(None) => tracing::info!("there is no checkpoint yet: starting from round 1"),
        Ok(Some(found)) => {
            let expected = checkpoint::settings(config).map_err(|error| write_failed(path)(error.into()))?;
            if found.settings != expected {
                return Err(RunError::OtherSettings { path: path.to_owned() });
            }
            tracing::info!(round = found.snapshot.server.round, "resuming from a checkpoint");
            simulation
                .restore(found.snapshot)
                .map_err(|source| RunError::Snapshot { path: path.to_owned(), source })?;
            progress = found.progress;
        }
        Err(error @ (CheckpointError::TooNew { .. } | CheckpointError::TooOld { .. })) => {
            return Err(error.into());
        }
        // The same settings give the same bits: nothing but time is lost.
        Err(error) => tracing::warn!("{error}: starting from round 1"),
    }
    let summary = train_and_evaluate(simulation, config, path, progress, observer, started)?;
    complete(config, path, summary, report)
}

/// Where the config says so, what clients keep goes to a folder that no other run has.
fn store_on_disk(simulation: &mut Simulation, config: &Checked, path: &Path) {
    if let Some(folder) = state_folder(config, path) {
        simulation.set_client_store(Box::new(DiskStore::new(&folder)));
    }
}

/// The folder for what this run's clients keep; none where it is in memory.
fn state_folder(config: &Checked, path: &Path) -> Option<PathBuf> {
    let parent = &config.checkpoint.state_dir;
    if parent.as_os_str().is_empty() {
        return None;
    }
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let key = Sha256::digest(whole.to_string_lossy().as_bytes());
    let name: String = key.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Some(parent.join(format!("run-{name}")))
}

/// The rounds that are left, and everything after them.
fn train_and_evaluate(
    mut simulation: Simulation,
    config: &Checked,
    path: &Path,
    progress: Progress,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Summary, RunError> {
    observer.started(&simulation, config.rounds);
    let earlier = progress.seconds.total;
    let progress = train(&mut simulation, config, path, progress, observer, started)?;
    save_server(&simulation, config, path)?;
    let begun = Instant::now();
    let (scores, clients, posterior) = evaluate(&simulation, config, path, observer)?;
    let mut seconds = progress.seconds;
    seconds.evaluate = begun.elapsed().as_secs_f64();
    seconds.total = earlier + started.elapsed().as_secs_f64();
    let summary = Summary {
        method: config.method.clone(),
        dataset: dataset_name(config),
        size: config.data.size.to_string(),
        seed: config.seed,
        rounds: config.rounds,
        scores,
        clients,
        posterior,
        seconds,
        bytes: progress.bytes,
        trouble: progress.trouble,
        epsilon: simulation.server().epsilon(),
        delta: simulation.server().epsilon().map(|_| config.privacy.delta),
        peak_rss_bytes: peak_memory(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(summary)
}

/// The report, then `summary.json`, which says that a run is complete. Its checkpoints and clients' states are of no more
/// use then, and are removed.
fn complete<R>(
    config: &Checked,
    path: &Path,
    summary: Summary,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let report = report(path, &summary);
    let target = path.join("summary.json");
    let text = serde_json::to_string_pretty(&summary).map_err(|error| write_failed(&target)(error.into()))?;
    write_whole(&target, text.as_bytes())?;
    checkpoint::remove_all(path);
    if let Some(folder) = state_folder(config, path) {
        disk_store::remove_states(&folder);
    }
    Ok(Completed { summary, report })
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
