//! A simulation with its files: what `fedsi run` does.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{DatasetName, Federation};

use crate::belief::Belief;
use crate::config::Checked;
use crate::files::{Values, parameter_tensors, prediction_tensors, write_tensors, write_whole};
use crate::folder::RunFolder;
use crate::model_file;
use crate::predict::Predictions;
use crate::record::{ClientScores, PosteriorSummary, RoundRecord, Scores, Seconds, Summary, Traffic};
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
        Ok(data) => carry_out(config, Arc::from(data), folder, observer, started),
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
    carry_out(config, federation, folder, observer, Instant::now())
}

fn carry_out(
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
    let path = folder.path();
    observer.started(&simulation, config.rounds);

    let mut seconds = Seconds::default();
    let trained = train(&mut simulation, config, path, &mut seconds, observer);
    // Also when a round failed: the state is then that of the round before, and worth keeping.
    save_server(&simulation, path)?;
    let bytes = trained?;

    let begun = Instant::now();
    let (scores, clients, posterior) = evaluate(&simulation, config, path, observer)?;
    seconds.evaluate = begun.elapsed().as_secs_f64();
    seconds.total = started.elapsed().as_secs_f64();
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
        bytes,
        peak_rss_bytes: peak_memory(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(summary)
}

/// Writes `summary.json`, which says that a run is complete: after everything else.
///
/// # Errors
/// A file that cannot be written.
pub fn complete(path: &Path, summary: &Summary) -> Result<(), RunError> {
    let target = path.join("summary.json");
    let text =
        serde_json::to_string_pretty(summary).map_err(|error| RunError::write(&target)(error.into()))?;
    write_whole(&target, text.as_bytes())
}

/// All rounds, a line each in `metrics.jsonl`.
fn train(
    simulation: &mut Simulation,
    config: &Checked,
    path: &Path,
    seconds: &mut Seconds,
    observer: &mut dyn Observer,
) -> Result<Traffic, RunError> {
    let metrics = path.join("metrics.jsonl");
    let mut lines = File::create(&metrics).map_err(RunError::write(&metrics))?;
    let mut bytes = Traffic::default();
    for _ in 0..config.rounds {
        let begun = Instant::now();
        let record = simulation.round()?;
        bytes += record.bytes;
        let line = serde_json::to_string(&record).map_err(|error| RunError::write(&metrics)(error.into()))?;
        writeln!(lines, "{line}").map_err(RunError::write(&metrics))?;
        seconds.posterior += record.seconds.posterior;
        seconds.train += begun.elapsed().as_secs_f64() - record.seconds.posterior;
        observer.round(&record);
    }
    Ok(bytes)
}

/// What a saved model needs to be used elsewhere: its layers, what goes in and what comes out.
fn describe(simulation: &Simulation) -> serde_json::Value {
    let federation = simulation.federation();
    serde_json::json!({
        "input": simulation.network().input_shape(),
        "layers": simulation.network().specs(),
        "class_names": federation.class_names(),
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
    let save = |evaluated: &Evaluated| -> Result<(), RunError> {
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
        });
        write_tensors(&models.join(format!("{}.safetensors", evaluated.model.client)), &tensors, Some(&about))
    };
    simulation.evaluate(save, |evaluated| {
        let id = evaluated.model.client;
        let name = federation.client_name(id).map(str::to_owned);
        posteriors.extend(evaluated.posterior);
        let scores = evaluated.predictions.scores();
        clients.push(ClientScores { id, name, samples: evaluated.samples, scores });
        owners.extend(std::iter::repeat_n(id, evaluated.predictions.len()));
        pooled.append(evaluated.predictions);
        observer.evaluated(clients.len(), federation.clients());
    })?;
    if pooled.is_empty() {
        tracing::warn!("no client has test data: there is nothing to score");
    }
    write_tensors(&path.join("predictions.safetensors"), &prediction_tensors(&pooled, &owners), None)?;
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
