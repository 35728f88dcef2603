//! A simulation with its files: what `fedsi run` does.

mod results;
mod train;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{DatasetName, Federation};
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{self, CheckpointError, Progress};
use crate::config::Checked;
use crate::files::write_whole;
use crate::folder::RunFolder;
use crate::record::{RoundRecord, Summary};
use crate::simulation::Simulation;
use crate::{Config, RunError};
use results::{evaluate, save_server};
use train::train;

/// Watches a run: a progress bar, a log, a test.
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

/// Watches nothing.
impl Observer for () {}

/// The name of the data in reports and folders.
#[must_use]
pub fn dataset_name(config: &Config) -> String {
    match config.data.dataset {
        DatasetName::Files => config.data.files.name.clone(),
        known => known.to_string(),
    }
}

/// Trains, evaluates and writes everything but the report and, by [`complete`], the summary, in a folder claimed
/// for it. What the folder held before is untouched unless the data could be opened.
///
/// # Errors
/// See [`RunError`]; one that [is bad input](RunError::is_bad_input) leaves no file behind.
pub fn run(config: &Checked, folder: RunFolder, observer: &mut dyn Observer) -> Result<Summary, RunError> {
    let started = Instant::now();
    match fedsi_data::open(&config.data, &config.partition, config.seed) {
        Ok(data) => begin(config, Arc::from(data), folder, observer, started),
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
pub fn run_on(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: RunFolder,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    begin(config, federation, folder, observer, Instant::now())
}

/// Goes on with a run that stopped, from its newest checkpoint or, where it has none, from the start: what comes is what
/// would have come.
///
/// # Errors
/// See [`RunError`]; whatever happens, earlier checkpoints stay.
pub fn resume(
    config: &Checked,
    folder: &RunFolder,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    let started = Instant::now();
    let data = fedsi_data::open(&config.data, &config.partition, config.seed)?;
    go_on(config, Arc::from(data), folder, observer, started)
}

/// The same on data that is open already.
///
/// # Errors
/// As [`resume`].
pub fn resume_on(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: &RunFolder,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    go_on(config, federation, folder, observer, Instant::now())
}

fn begin(
    config: &Checked,
    federation: Arc<dyn Federation>,
    mut folder: RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Summary, RunError> {
    let mut simulation = match Simulation::new(config, federation) {
        Ok(simulation) => simulation,
        Err(error) => {
            folder.abandon();
            return Err(error);
        }
    };
    folder.keep()?;
    keep_on_disk(&mut simulation, config, folder.path());
    carry_out(simulation, config, folder.path(), Progress::default(), observer, started)
}

fn go_on(
    config: &Checked,
    federation: Arc<dyn Federation>,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Summary, RunError> {
    let path = folder.path();
    let refused = |reason: String| RunError::NotResumable { path: path.to_owned(), reason };
    let mut simulation = Simulation::new(config, federation)?;
    keep_on_disk(&mut simulation, config, path);
    let mut progress = Progress::default();
    match checkpoint::latest(path) {
        Ok(None) => tracing::info!("there is no checkpoint yet: from the start"),
        Ok(Some(found)) => {
            if found.settings != checkpoint::settings(config) {
                let reason = "has a checkpoint of a run with other settings than its config.toml; start anew with \
                              fedsi run";
                return Err(refused(reason.to_owned()));
            }
            tracing::info!(round = found.snapshot.round, "from a checkpoint");
            simulation.restore(found.snapshot).map_err(|reason| {
                refused(format!("has a checkpoint that does not fit: {reason}; start anew with fedsi run"))
            })?;
            progress = found.progress;
        }
        Err(error @ CheckpointError::TooNew { .. }) => return Err(refused(error.to_string())),
        // The same settings give the same bits: nothing but time is lost.
        Err(error) => tracing::warn!("{error}: from the start"),
    }
    carry_out(simulation, config, path, progress, observer, started)
}

/// Where the config says so, what clients keep goes to a folder that no other run has.
fn keep_on_disk(simulation: &mut Simulation, config: &Checked, path: &Path) {
    let parent = &config.checkpoint.state_dir;
    if parent.as_os_str().is_empty() {
        return;
    }
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let key = Sha256::digest(whole.to_string_lossy().as_bytes());
    let name: String = key.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    simulation.keep_on_disk(&parent.join(format!("run-{name}")));
}

/// The rounds that are left, and everything after them.
fn carry_out(
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
    save_server(&simulation, path)?;
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
        epsilon: simulation.epsilon(),
        delta: simulation.epsilon().map(|_| config.privacy.delta),
        peak_rss_bytes: peak_memory(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(summary)
}

/// Writes `summary.json`, which says that a run is complete: after everything else. Its checkpoints have then done their
/// work, and go.
///
/// # Errors
/// A file that cannot be written.
pub fn complete(path: &Path, summary: &Summary) -> Result<(), RunError> {
    let target = path.join("summary.json");
    let text =
        serde_json::to_string_pretty(summary).map_err(|error| RunError::write(&target)(error.into()))?;
    write_whole(&target, text.as_bytes())?;
    checkpoint::remove_all(path);
    Ok(())
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
