//! A simulation with its files: what `fedsi run` does.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::DatasetName;

use crate::config::{Checked, commented};
use crate::files::{parameter_tensors, prediction_tensors, write_tensors, write_whole};
use crate::predict::Predictions;
use crate::record::{ClientScores, RoundRecord, Seconds, Summary, Traffic};
use crate::simulation::Simulation;
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

/// The files of a run, all within one folder.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The run that this one replaces, moved aside until the new one is under way.
    replaced: Option<PathBuf>,
    /// The folders made for this run, innermost first.
    created: Vec<PathBuf>,
}

impl RunFolder {
    /// `runs/<method>-<dataset>-<size>-s<seed>` below `parent`, with a number appended where that is taken.
    #[must_use]
    pub fn default_path(parent: &Path, config: &Config) -> PathBuf {
        let name =
            format!("{}-{}-{}-s{}", config.method, dataset_name(config), config.data.size, config.seed);
        let runs = parent.join("runs");
        let free = |path: &PathBuf| !path.exists() || is_empty(path);
        let numbered = (2_u32..).map(|number| runs.join(format!("{name}-{number}")));
        std::iter::once(runs.join(&name)).chain(numbered).find(free).unwrap_or(runs)
    }

    /// Takes a folder for a run: a new one, an empty one, or with `force` one that holds a run, which is moved
    /// aside until the new run is under way, and comes back if that never starts.
    ///
    /// # Errors
    /// A folder that holds something already, or cannot be made.
    pub fn claim(path: &Path, force: bool) -> Result<Self, RunError> {
        let mut replaced = None;
        if path.exists() && !is_empty(path) {
            if !path.join("config.toml").is_file() {
                let found = if path.is_dir() { "holds files that are no run" } else { "is no folder" };
                let remedy = "choose another folder with --out";
                return Err(RunError::OutputTaken { path: path.to_owned(), found, remedy });
            }
            if !force {
                let remedy = "choose another folder with --out, or --force to replace it";
                return Err(RunError::OutputTaken {
                    path: path.to_owned(),
                    found: "holds a run already",
                    remedy,
                });
            }
            let aside = path.with_file_name(format!(
                ".{}-replaced-{}",
                path.file_name().unwrap_or_default().to_string_lossy(),
                std::process::id()
            ));
            fs::rename(path, &aside).map_err(RunError::write(path))?;
            replaced = Some(aside);
        }
        let created = path.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        let folder = Self { path: path.to_owned(), replaced, created };
        match fs::create_dir_all(path) {
            Ok(()) => Ok(folder),
            Err(source) => {
                folder.abandon();
                Err(RunError::write(path)(source))
            }
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run is under way: what it replaces goes.
    fn keep(&mut self) -> Result<(), RunError> {
        match self.replaced.take() {
            Some(old) => fs::remove_dir_all(&old).map_err(RunError::write(&old)),
            None => Ok(()),
        }
    }

    /// The run never started: leaves everything as it was found.
    fn abandon(self) {
        // Best effort: the error that led here is the one to report.
        let config = self.path.join("config.toml");
        let _ = fs::remove_file(config);
        for folder in &self.created {
            let _ = fs::remove_dir(folder);
        }
        if let Some(old) = self.replaced {
            let _ = fs::rename(old, &self.path);
        }
    }
}

/// The name of the data in reports and folders.
#[must_use]
pub fn dataset_name(config: &Config) -> String {
    match config.data.dataset {
        DatasetName::Files => config.data.files.name.clone(),
        known => known.to_string(),
    }
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Trains, evaluates and writes everything but the report. What the folder held before is untouched unless the
/// data could be opened.
///
/// # Errors
/// See [`RunError`]; one that [is bad input](RunError::is_bad_input) leaves no file behind.
pub fn run(
    config: &Checked,
    mut folder: RunFolder,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    let started = Instant::now();
    let prepared = write_whole(&folder.path.join("config.toml"), commented(config)?.as_bytes())
        .and_then(|()| Ok(fedsi_data::open(&config.data, &config.partition, config.seed)?))
        .and_then(|federation| Simulation::new(config, Arc::from(federation)));
    let mut simulation = match prepared {
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
    let bytes = train(&mut simulation, config, path, &mut seconds, observer)?;
    save_server(&simulation, path)?;

    let begun = Instant::now();
    let (scores, clients) = evaluate(&simulation, config, path, observer)?;
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
        seconds,
        bytes,
        peak_rss_bytes: peak_memory(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let target = path.join("summary.json");
    let text =
        serde_json::to_string_pretty(&summary).map_err(|error| RunError::write(&target)(error.into()))?;
    write_whole(&target, text.as_bytes())?;
    Ok(summary)
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

/// `checkpoint/server.safetensors`: the network a new client would start from.
fn save_server(simulation: &Simulation, path: &Path) -> Result<(), RunError> {
    let folder = path.join("checkpoint");
    fs::create_dir_all(&folder).map_err(RunError::write(&folder))?;
    let tensors = parameter_tensors(simulation.network().layout(), &simulation.global_parameters());
    let about = serde_json::json!({
        "format": "fedsi-model-1",
        "round": simulation.server().round(),
        "shared": simulation.shared_part().to_string(),
        "input": simulation.network().input_shape(),
        "layers": simulation.network().specs(),
    });
    write_tensors(&folder.join("server.safetensors"), &tensors, Some(&about))
}

/// Personal models, predictions and scores.
fn evaluate(
    simulation: &Simulation,
    config: &Checked,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<(crate::record::Scores, Vec<ClientScores>), RunError> {
    let federation = simulation.federation();
    let models = path.join("clients");
    if config.output.personal_models {
        fs::create_dir_all(&models).map_err(RunError::write(&models))?;
    }
    let mut pooled = Predictions::none(federation.task());
    let (mut clients, mut owners) = (Vec::new(), Vec::new());
    simulation.evaluate(|evaluated| {
        let id = evaluated.client;
        let name = federation.client_name(id).map(str::to_owned);
        if config.output.personal_models {
            let tensors = parameter_tensors(simulation.network().layout(), &evaluated.parameters);
            let about = serde_json::json!({
                "format": "fedsi-model-1",
                "client": id,
                "name": name,
                "method": config.method,
                "input": simulation.network().input_shape(),
                "layers": simulation.network().specs(),
            });
            write_tensors(&models.join(format!("{id}.safetensors")), &tensors, Some(&about))?;
        }
        let samples = evaluated.predictions.len();
        clients.push(ClientScores { id, name, samples, scores: evaluated.predictions.scores() });
        owners.extend(std::iter::repeat_n(id, samples));
        pooled.append(evaluated.predictions);
        observer.evaluated(clients.len(), federation.clients());
        Ok(())
    })?;
    write_tensors(&path.join("predictions.safetensors"), &prediction_tensors(&pooled, &owners), None)?;
    let main = fedsi_metrics::Summary::of(clients.iter().filter_map(|client| client.scores.main()));
    Ok((pooled.scores().with_main(main.map(|over_clients| over_clients.mean)), clients))
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
