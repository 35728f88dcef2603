//! A simulation with its files: what `fedsi run` does.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{DatasetName, Federation};
use sha2::{Digest as _, Sha256};

use crate::belief::Belief;
use crate::checkpoint::{self, CheckpointError, Progress};
use crate::config::Checked;
use crate::exhibits::{self, Picker, Witness};
use crate::files::{Values, parameter_tensors, prediction_tensors, write_tensors, write_whole};
use crate::folder::RunFolder;
use crate::model_file;
use crate::predict::Predictions;
use crate::record::{ClientScores, PosteriorSummary, RoundRecord, Scores, Summary};
use crate::simulation::{Evaluated, Simulation};
use crate::{Config, RunError};

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

/// The rounds that are left, a line each in `metrics.jsonl`, with checkpoints between them: when due, after the last, and
/// where the run stops early.
fn train(
    simulation: &mut Simulation,
    config: &Checked,
    path: &Path,
    mut progress: Progress,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Progress, RunError> {
    let metrics = path.join("metrics.jsonl");
    let mut lines = open_metrics(&metrics, progress.metrics).map_err(RunError::write(&metrics))?;
    let mut checkpoints = checkpoint::Writer::new(path, config);
    let earlier = progress.seconds.total;
    let save = |checkpoints: &mut checkpoint::Writer,
                simulation: &mut Simulation,
                progress: &mut Progress,
                lines: &File| {
        // What a checkpoint says of the file must be on the disk before it.
        lines.sync_data().map_err(RunError::write(&metrics))?;
        progress.seconds.total = earlier + started.elapsed().as_secs_f64();
        let oldest = checkpoints.write(simulation.snapshot()?, progress.clone())?;
        simulation.forget_before(oldest);
        Ok::<_, RunError>(())
    };
    while simulation.server().round() < config.rounds as u64 {
        if observer.wants_to_stop() {
            save(&mut checkpoints, simulation, &mut progress, &lines)?;
            let round = simulation.server().round();
            return Err(RunError::Interrupted { round, rounds: config.rounds });
        }
        let begun = Instant::now();
        let record = match simulation.round() {
            Ok(record) => record,
            Err(error) => {
                // The state is that of the round before, and worth keeping.
                save(&mut checkpoints, simulation, &mut progress, &lines)?;
                return Err(error);
            }
        };
        progress.bytes += record.bytes;
        progress.trouble.add(&record);
        let line = serde_json::to_string(&record).map_err(|error| RunError::write(&metrics)(error.into()))?;
        writeln!(lines, "{line}").map_err(RunError::write(&metrics))?;
        progress.metrics += line.len() as u64 + 1;
        progress.seconds.posterior += record.seconds.posterior;
        progress.seconds.train += begun.elapsed().as_secs_f64() - record.seconds.posterior;
        observer.round(&record);
        let round = simulation.server().round();
        if checkpoints.is_due(round) || round == config.rounds as u64 {
            save(&mut checkpoints, simulation, &mut progress, &lines)?;
        }
    }
    Ok(progress)
}

/// `metrics.jsonl` with its first `length` bytes: what comes after them is made again.
fn open_metrics(path: &Path, length: u64) -> std::io::Result<File> {
    let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
    if file.metadata()?.len() < length {
        let words = "it is shorter than its checkpoint says; start anew with fedsi run";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, words));
    }
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok(file)
}

/// What a saved model needs to be used elsewhere: its layers, what goes in and what comes out.
fn describe(simulation: &Simulation) -> serde_json::Value {
    let federation = simulation.federation();
    serde_json::json!({
        "input": simulation.network().input_shape(),
        "layers": simulation.network().specs(),
        "class_names": federation.class_names(),
        "columns": federation.input_columns(),
        "pixels": federation.has_pixels(),
        "input_scaling": federation.input_scaling(),
        "target_scaling": federation.target_scaling(),
    })
}

/// `checkpoint/server.safetensors`: the network a new client would start from, and the variances of the shared
/// part where the server holds a Gaussian.
fn save_server(simulation: &Simulation, path: &Path) -> Result<(), RunError> {
    let folder = path.join("checkpoint");
    fs::create_dir_all(&folder).map_err(RunError::write(&folder))?;
    let mut tensors = parameter_tensors(simulation.network().layout(), &simulation.global_parameters());
    if let Some(variance) = &simulation.server().shared().variance {
        tensors.push(Values::f32("server.variance", vec![variance.len()], variance));
    }
    let about = serde_json::json!({
        "format": "fedsi-model-1",
        "round": simulation.server().round(),
        "shared": simulation.shared_part().to_string(),
        "prior_variance": simulation.chosen_prior_variance(),
        "model": describe(simulation),
    });
    write_tensors(&folder.join("server.safetensors"), &tensors, Some(&about))
}

/// How a saved model's belief becomes a prediction.
fn predictive(belief: &Belief, config: &Checked) -> Option<serde_json::Value> {
    match belief {
        Belief::Point => None,
        Belief::Laplace(_) => {
            Some(serde_json::json!({ "kind": config.fedsi.predictive, "draws": config.fedsi.draws }))
        }
        Belief::MeanField { .. } => {
            Some(serde_json::json!({ "kind": "draws", "draws": config.mean_field.draws }))
        }
        Belief::Samples { .. } => Some(serde_json::json!({ "kind": "samples" })),
    }
}

/// Personal models, predictions and scores.
fn evaluate(
    simulation: &Simulation,
    config: &Checked,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<(Scores, Vec<ClientScores>, Option<PosteriorSummary>), RunError> {
    let federation = simulation.federation();
    let models = path.join("clients");
    if config.output.personal_models {
        fs::create_dir_all(&models).map_err(RunError::write(&models))?;
    }
    let mut pooled = Predictions::none(federation.task());
    let (mut clients, mut owners, mut posteriors) = (Vec::new(), Vec::new(), Vec::new());
    let description = describe(simulation);
    let (witness, mut picker) = (Witness::new(simulation), Picker::default());
    let save = |evaluated: &Evaluated| -> Result<(), RunError> {
        witness.see(&evaluated.model);
        if !config.output.personal_models {
            return Ok(());
        }
        let (tensors, posterior) = model_file::tensors(simulation.network(), &evaluated.model);
        let about = serde_json::json!({
            "format": "fedsi-model-1",
            "client": evaluated.model.client,
            "name": federation.client_name(evaluated.model.client),
            "method": config.method,
            "model": description,
            "posterior": posterior,
            "subnetwork": evaluated.model.belief.laplace().map(|inferred| &inferred.subnetwork),
            "predictive": predictive(&evaluated.model.belief, config),
            "noise": evaluated.noise,
        });
        write_tensors(&models.join(format!("{}.safetensors", evaluated.model.client)), &tensors, Some(&about))
    };
    simulation.evaluate(save, |evaluated| {
        let id = evaluated.model.client;
        let name = federation.client_name(id).map(str::to_owned);
        posteriors.extend(evaluated.posterior);
        picker.look(id, federation.clients(), &evaluated.predictions);
        let scores = evaluated.predictions.scores();
        clients.push(ClientScores { id, name, samples: evaluated.samples, scores });
        owners.extend(std::iter::repeat_n(id, evaluated.predictions.len()));
        pooled.append(evaluated.predictions);
        observer.evaluated(clients.len(), federation.clients());
        if observer.wants_to_stop() {
            let round = simulation.server().round();
            return Err(RunError::Interrupted { round, rounds: config.rounds });
        }
        Ok(())
    })?;
    if pooled.is_empty() {
        tracing::warn!("no client has test data: there is nothing to score");
    }
    write_tensors(&path.join("predictions.safetensors"), &prediction_tensors(&pooled, &owners), None)?;
    exhibits::write_exhibits(&path.join("exhibits.safetensors"), &witness.finish(picker))?;
    let accuracy = fedsi_metrics::Summary::of(clients.iter().filter_map(|client| client.scores.accuracy()));
    let scores = pooled.scores().with_accuracy(accuracy.map(|over_clients| over_clients.mean));
    Ok((scores, clients, PosteriorSummary::of(&posteriors)))
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
