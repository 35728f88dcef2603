//! A simulation with its files.

mod results;
mod train;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use fedsi_data::InputFile;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::{Checked, Simulation};

use crate::checkpoint::{self, Checkpoint, CheckpointError, Progress};
use crate::device::ComputeDevice;
use crate::disk_store::{self, DiskStore};
use crate::files::{for_owner_only, write_failed, write_whole};
use crate::folder::{FolderError, RunFolder, remove_leftovers};
use crate::naming::dataset_name;
use crate::open_data::OpenData;
use crate::origin::{Origin, run_id};
use crate::personal_file::{describe, save_server};
use crate::rounds::Rounds;
use crate::settings::settings_text;
use crate::summary::{ClientCoverage, DIGESTED, Summary};
use crate::{RunError, evaluation_log};
use results::{DATA_SUMMARY, Evaluated, evaluate};
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
    match OpenData::open(config) {
        Ok(data) => start(config, data, folder, observer, started, report),
        Err(error) => {
            folder.abandon();
            Err(error)
        }
    }
}

/// The same on data that is open already, as `config` describes it: several runs share one copy.
///
/// # Errors
/// As [`run`].
pub fn run_on<R>(
    config: &Checked,
    data: OpenData,
    folder: RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    start(config, data, folder, observer, Instant::now(), report)
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
    restart(config, OpenData::open(config)?, folder, observer, started, report)
}

/// The same on data that is open already.
///
/// # Errors
/// As [`resume`].
pub fn resume_on<R>(
    config: &Checked,
    data: OpenData,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    restart(config, data, folder, observer, Instant::now(), report)
}

fn start<R>(
    config: &Checked,
    data: OpenData,
    mut folder: RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let OpenData { federation, digest } = data;
    // All that can fail comes before the old run is given up.
    let prepared = || {
        let device = ComputeDevice::open(config.device)?;
        let simulation = device.simulation(config, federation)?;
        Ok::<_, RunError>((simulation, device, Origin::new(config, digest)?))
    };
    let (mut simulation, device, origin) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => {
            folder.abandon();
            return Err(error);
        }
    };
    // What clients of a run kept that is replaced is nobody's any more.
    let replaced = folder.replaced().and_then(|aside| Origin::read(&aside).ok().flatten());
    folder.keep()?;
    if let Some(states) = replaced.as_ref().and_then(|replaced| replaced.removable_states(folder.path())) {
        disk_store::remove_states(states);
    }
    store_on_disk(&mut simulation, &origin);
    finish_run(simulation, config, &folder, RunState::at_start(origin, device), observer, started, report)
}

fn restart<R>(
    config: &Checked,
    data: OpenData,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    started: Instant,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let (simulation, state) = restore(config, data, folder.path())?;
    finish_run(simulation, config, folder, state, observer, started, report)
}

/// What a run has come to besides the federation.
struct RunState {
    device: ComputeDevice,
    origin: Origin,
    /// The lines of `metrics.jsonl`.
    metrics: String,
    progress: Progress,
}

impl RunState {
    fn at_start(origin: Origin, device: ComputeDevice) -> Self {
        Self { device, origin, metrics: String::new(), progress: Progress::default() }
    }
}

/// The simulation as the newest usable checkpoint has it or, where there is none, at its start.
fn restore(config: &Checked, data: OpenData, path: &Path) -> Result<(Simulation, RunState), RunError> {
    if path.join("summary.json").exists() {
        return Err(FolderError::HoldsARun { path: path.to_owned() }.into());
    }
    let OpenData { federation, digest } = data;
    let device = ComputeDevice::open(config.device)?;
    let mut simulation = device.simulation(config, federation)?;
    let settings = settings_text(config).map_err(|error| write_failed(path)(error.into()))?;
    let changed = |origin: &Origin| {
        let change = origin.data.change(&digest);
        change.map_or(Ok(()), |change| Err(RunError::DataChanged { path: path.to_owned(), change }))
    };
    // What says that the data changed is the same in all checkpoints: no older one helps.
    let mut refused: Option<RunError> = None;
    let restored = checkpoint::newest_usable(path, checkpoint::Usable::Any, |file, checkpoint| {
        let Checkpoint { snapshot, settings: there, origin, metrics, progress } = checkpoint;
        if there != settings {
            return Err(CheckpointError::OtherSettings { path: file.to_owned() });
        }
        let origin = origin.relocated(config);
        if let Err(error) = changed(&origin).and_then(|()| Ok(origin.own_states(path)?)) {
            // Nothing is restored: that alone would remove files of later rounds.
            let reason = error.to_string();
            refused.get_or_insert(error);
            return Err(CheckpointError::Damaged { path: file.to_owned(), reason });
        }
        store_on_disk(&mut simulation, &origin);
        let round = snapshot.server.round;
        let unfit = |source| CheckpointError::Snapshot { path: file.to_owned(), source };
        simulation.restore(snapshot).map_err(unfit)?;
        tracing::info!(round, "resuming from a checkpoint");
        Ok(RunState { device: device.clone(), origin, metrics, progress })
    });
    if let Some(error) = refused {
        return Err(error);
    }
    let state = match restored {
        Ok(Some(state)) => state,
        // What earlier rounds of a run with privacy told would come on top of what new ones tell.
        Err(error) if !error.is_damage() || config.privacy.is_on() => return Err(error.into()),
        none => {
            match none {
                // The same settings give the same bits: nothing but time is lost.
                Err(error) => tracing::warn!("{error}: starting from round 1"),
                _ => tracing::info!("there is no checkpoint yet: starting from round 1"),
            }
            let begun = Origin::read(path).ok().flatten();
            begun.as_ref().map_or(Ok(()), changed)?;
            let begun = begun.map(|origin| origin.relocated(config));
            if let Some(states) = begun.as_ref().and_then(|origin| origin.removable_states(path)) {
                disk_store::remove_states(states);
            }
            evaluation_log::remove(path)?;
            let origin = Origin::new(config, digest.clone())?;
            store_on_disk(&mut simulation, &origin);
            RunState::at_start(origin, device)
        }
    };
    Ok((simulation, state))
}

/// Where the config says so, what clients keep goes to a folder that no other run has.
fn store_on_disk(simulation: &mut Simulation, origin: &Origin) {
    if let Some(folder) = &origin.states {
        simulation.set_client_store(Box::new(DiskStore::new(folder)));
    }
}

/// The rounds that are left, and everything after them.
fn finish_run<R>(
    mut simulation: Simulation,
    config: &Checked,
    folder: &RunFolder,
    state: RunState,
    observer: &mut dyn Observer,
    started: Instant,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let RunState { device, origin, metrics, progress } = state;
    let path = folder.path();
    if config.privacy.is_on() {
        for_owner_only(path)?;
    }
    origin.write(path)?;
    origin.own_states(path)?;
    let id = run_id(config, &origin).map_err(|error| write_failed(path)(error.into()))?;
    let progress = on_this_hardware(progress, device.kind());
    observer.started(&simulation, config.rounds);
    let earlier = progress.seconds.total;
    let mut rounds = Rounds::new(path, config, &origin, metrics, progress, started)?;
    train(&mut rounds, folder, simulation.coordinator_mut(), config, observer)?;
    let progress = rounds.progress;
    let description = describe(simulation.federation(), config, true)?;
    save_server(simulation.coordinator(), &description, path, &id)?;
    let begun = Instant::now();
    let Evaluated { scores, clients, classes, details, posterior, earlier_seconds } =
        evaluate(&simulation, config, folder, &id, observer)?;
    let mut seconds = progress.seconds;
    seconds.evaluate = earlier_seconds + begun.elapsed().as_secs_f64();
    seconds.total = earlier + earlier_seconds + started.elapsed().as_secs_f64();
    let summary = Summary {
        method: config.method.clone(),
        dataset: dataset_name(config),
        size: config.data.size.to_string(),
        seed: config.seed,
        rounds: config.rounds,
        scores,
        coverage: Some(ClientCoverage::of(&clients)),
        details,
        clients,
        classes,
        posterior,
        modes: Some(simulation.server().shared().len()).filter(|&modes| modes > 1),
        calibration: simulation.server().calibration(),
        seconds,
        bytes: progress.bytes,
        trouble: progress.trouble,
        epsilon: simulation.server().epsilon(),
        delta: simulation.server().epsilon().map(|_| config.privacy.delta),
        peak_rss_bytes: peak_memory(),
        device: Some(device.name().to_owned()),
        cpu: Some(progress.cpus.join(", then ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: Some(id),
        files: file_digests(path)?,
    };
    complete(folder, &origin, summary, report)
}

/// Whether two kinds of hardware ([`ComputeDevice::kind`]) give the same bits: CPUs that round alike, and the same GPU or none.
fn same_bits(one: &str, other: &str) -> bool {
    let parts = |kind: &str| -> (String, Option<String>) {
        let (cpu, gpu) = kind.split_once(" with ").map_or((kind, None), |(cpu, gpu)| (cpu, Some(gpu)));
        (cpu.to_owned(), gpu.map(str::to_owned))
    };
    let ((cpu, gpu), (other_cpu, other_gpu)) = (parts(one), parts(other));
    gpu == other_gpu && fedsi_nn::same_bits(&cpu, &other_cpu)
}

/// Notes the kind of hardware that goes on with a run; says so where another kind began it and the last bits may differ.
fn on_this_hardware(mut progress: Progress, here: String) -> Progress {
    if let Some(there) = progress.cpus.last().filter(|there| !same_bits(there, &here)) {
        tracing::warn!(
            "the rounds so far were computed on {there} and the rest on {here}: results differ from those of either alone, by \
             rounding or, between CPU and GPU, by other random draws"
        );
    }
    if progress.cpus.last().is_none_or(|there| *there != here) {
        progress.cpus.push(here);
    }
    progress
}

/// The report, then `summary.json`, which says that a run is complete. Its checkpoints and clients' states are of no more
/// use then, and are removed.
fn complete<R>(
    folder: &RunFolder,
    origin: &Origin,
    summary: Summary,
    report: impl FnOnce(&Path, &Summary) -> R,
) -> Result<Completed<R>, RunError> {
    let path = folder.path();
    let report = report(path, &summary);
    folder.check_held()?;
    let target = path.join("summary.json");
    let text = serde_json::to_string_pretty(&summary).map_err(|error| write_failed(&target)(error.into()))?;
    write_whole(&target, text.as_bytes())?;
    clean_up(path, Some(origin));
    Ok(Completed { summary, report })
}

/// Removes what only an unfinished run needs. Best effort: what stays costs disk space, and a second call removes it.
fn clean_up(path: &Path, origin: Option<&Origin>) {
    let _ = remove_leftovers(path);
    if let Some(states) = origin.and_then(|origin| origin.removable_states(path)) {
        disk_store::remove_states(states);
    }
}

/// Ends a run that was killed between its summary and its last clean-up. Costs a look where there is nothing to do.
pub fn clean_up_complete(folder: &RunFolder) {
    let origin = Origin::read(folder.path()).ok().flatten();
    clean_up(folder.path(), origin.as_ref());
}

/// SHA-256 of the files that have no checksum of their own, by name.
fn file_digests(path: &Path) -> Result<BTreeMap<String, String>, RunError> {
    let mut digests = BTreeMap::new();
    // Of data that is no table there is no summary.
    for name in DIGESTED.into_iter().filter(|&name| name != DATA_SUMMARY || path.join(name).is_file()) {
        digests.insert(name.to_owned(), InputFile::of(&path.join(name))?.sha256);
    }
    Ok(digests)
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
