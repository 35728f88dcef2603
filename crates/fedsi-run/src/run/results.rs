//! What a run leaves of its models: the server's, each client's, their predictions and scores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fedsi_data::{Federation, Split, Task, hexadecimal};
use fedsi_fl::calibration::Calibration;
use fedsi_fl::client::{PersonalModel, PosteriorSummary, Predictions};
use fedsi_fl::scores::Scores;
use fedsi_fl::simulation::EvaluationRequest;
use fedsi_fl::wire::mode_prefix;
use fedsi_fl::{Checked, Simulation, SimulationError};

use sha2::{Digest as _, Sha256};

use super::Observer;
use crate::RunError;
use crate::class_scores::ClassScores;
use crate::evaluated_client::EvaluatedClient;
use crate::evaluation_log::EvaluationLog;
use crate::files::{
    Readers, WriteError, create_folder, remove_file, write_failed, write_for, write_streamed,
};
use crate::folder::RunFolder;
use crate::model_file::{FORMAT, SERVER_FORMAT, model_tensors};
use crate::naming::target_suffixes;
use crate::predictions_file::prediction_tensors;
use crate::predictions_table::{PREDICTIONS_TABLE, PredictionsTable};
use crate::report_data::{REPORT_DATA, ReportCollector, SamplePicker, unseen_inputs, write_report_data};
use crate::saved::SavedModel;
use crate::score_details::ScoreDetails;
use crate::summary::ClientScores;
use crate::tensor_file::{
    NamedTensor, TensorFileError, parameter_tensors, write_checked_tensors, write_tensors,
};

/// What a saved model needs to be used elsewhere: its layers, what goes in and what comes out.
fn describe(simulation: &Simulation, config: &Checked) -> Result<serde_json::Value, RunError> {
    let federation = simulation.federation();
    let network = config.network(federation.input_shape(), federation.task())?;
    Ok(serde_json::json!({
        "input": network.input_shape(),
        "layers": network.specs(),
        "class_names": federation.class_names(),
        "columns": federation.input_columns(),
        "encoding": federation.table_encoding(),
        "pixels": federation.has_pixels(),
        "input_scaling": federation.input_scaling(),
        "target_scaling": federation.target_scaling(),
    }))
}

/// `checkpoint/server.safetensors`: the network a new client would start from, and the variances of the shared
/// part where the server holds a Gaussian.
pub(super) fn save_server(
    simulation: &Simulation,
    config: &Checked,
    path: &Path,
    id: &str,
) -> Result<(), RunError> {
    let folder = path.join("checkpoint");
    create_folder(&folder, Readers::Umask)?;
    let (client, server) = (simulation.client(), simulation.server());
    let mut tensors = Vec::new();
    for (mode, parameters) in simulation.global_parameters()?.iter().enumerate() {
        let mut own = parameter_tensors(client.network().layout(), parameters.values());
        let variance = server.shared()[mode].variance();
        own.extend(variance.map(|one| NamedTensor::f32("server.variance", vec![one.len()], one)));
        let prefix = mode_prefix(mode);
        tensors.extend(own.into_iter().map(|tensor| tensor.prefixed(&prefix)));
    }
    let entry = serde_json::json!({
        "format": SERVER_FORMAT,
        "run": id,
        "round": server.round(),
        "shared": client.procedure().shared.to_string(),
        "modes": server.shared().len(),
        "calibration": server.calibration(),
        "model": describe(simulation, config)?,
    });
    Ok(write_checked_tensors(&folder.join("server.safetensors"), Readers::Umask, &tensors, &entry)?)
}

/// Where personal models are saved, and what all of their files say.
struct ModelFolder<'a> {
    simulation: &'a Simulation,
    config: &'a Checked,
    folder: PathBuf,
    id: &'a str,
    description: serde_json::Value,
}

impl ModelFolder<'_> {
    fn path(&self, client: usize) -> PathBuf {
        self.folder.join(format!("{client}.safetensors"))
    }

    fn save(&self, model: &PersonalModel) -> Result<(), WriteError> {
        let file = self.path(model.client);
        let (tensors, entry) = model_tensors(self.simulation.client(), model);
        let invalid = |error| write_failed(&file)(std::io::Error::other(TensorFileError::Entry(error)));
        let mut entry = serde_json::to_value(entry).map_err(invalid)?;
        entry["format"] = FORMAT.into();
        entry["run"] = self.id.into();
        entry["name"] = self.simulation.federation().client_name(model.client).into();
        entry["method"] = self.config.method.clone().into();
        entry["model"] = self.description.clone();
        // The smallest and largest values of the client's own rows, and how many there are: in its own file, and nowhere
        // else.
        let federation = self.simulation.federation();
        if let Some(ranges) = federation.column_ranges(model.client) {
            entry["ranges"] = serde_json::to_value(ranges).map_err(invalid)?;
            let rows = federation.row_numbers(model.client, Split::Train);
            if let (Some(encoding), Some(rows)) = (federation.table_encoding(), rows) {
                let rows = rows.iter().filter_map(|&row| federation.row_cells(row));
                let counts = SavedModel::count_values(encoding, rows);
                entry["value_counts"] = serde_json::to_value(counts).map_err(invalid)?;
            }
        }
        write_checked_tensors(&file, Readers::Owner, &tensors, &entry)
    }
}

/// What is gathered of evaluated clients, in their order.
struct Results {
    pooled: Predictions,
    /// The client that each prediction belongs to.
    owners: Vec<usize>,
    /// How strange each sample is to its client's model; NaN where that is not known.
    strangeness: Vec<f64>,
    clients: Vec<ClientScores>,
    posteriors: Vec<PosteriorSummary>,
    picker: SamplePicker,
}

impl Results {
    fn add(&mut self, simulation: &Simulation, evaluated: EvaluatedClient) -> Result<(), SimulationError> {
        let federation = simulation.federation();
        let EvaluatedClient { client: id, samples, posterior, predictions, problem, strangeness, .. } =
            evaluated;
        let name = federation.client_name(id).map(str::to_owned);
        self.posteriors.extend(posterior);
        self.picker.add(id, federation.clients(), &predictions, strangeness.as_deref());
        match strangeness.filter(|scores| scores.len() == predictions.len()) {
            Some(scores) => self.strangeness.extend(scores),
            None => self.strangeness.extend(std::iter::repeat_n(f64::NAN, predictions.len())),
        }
        self.clients.push(ClientScores { id, name, samples, problem, scores: predictions.scores() });
        self.owners.extend(std::iter::repeat_n(id, predictions.len()));
        Ok(self.pooled.append(predictions)?)
    }
}

impl Results {
    /// What an evaluation of all clients at once would have said where none has a usable model.
    fn require_a_model(&self) -> Result<(), SimulationError> {
        let problems = || self.clients.iter().filter_map(|client| Some((client.id, client.problem.clone()?)));
        match problems().next() {
            Some((client, reason)) if problems().count() == self.clients.len() => {
                Err(SimulationError::NoModels { client, reason, diverged: true })
            }
            _ => Ok(()),
        }
    }
}

/// What an evaluation found.
pub(super) struct Evaluated {
    pub(super) scores: Scores,
    pub(super) clients: Vec<ClientScores>,
    pub(super) classes: Vec<ClassScores>,
    pub(super) details: ScoreDetails,
    pub(super) posterior: Option<PosteriorSummary>,
    /// What processes before this one spent on it.
    pub(super) earlier_seconds: f64,
}

/// Whose log an evaluation's is: of this run and of just these trained parameters.
fn log_id(simulation: &Simulation, run: &str) -> String {
    let server = simulation.server();
    let mut hash = Sha256::new();
    hash.update(run);
    for shared in server.shared() {
        let values = shared.values().iter().chain(shared.variance().into_iter().flatten());
        values.for_each(|value| hash.update(value.to_le_bytes()));
    }
    let Calibration { prior_variance, temperature, mixture_temperature } = server.calibration();
    for chosen in [prior_variance, temperature, mixture_temperature] {
        hash.update(chosen.unwrap_or(f64::NAN).to_le_bytes());
    }
    hexadecimal(&hash.finalize()[..16])
}

/// Personal models, predictions and scores. Goes on after the clients that are in the log.
pub(super) fn evaluate(
    simulation: &Simulation,
    config: &Checked,
    run: &RunFolder,
    id: &str,
    observer: &mut dyn Observer,
) -> Result<Evaluated, RunError> {
    let (federation, path) = (simulation.federation(), run.path());
    let models = ModelFolder {
        simulation,
        config,
        folder: path.join("clients"),
        id,
        description: describe(simulation, config)?,
    };
    if config.output.personal_models {
        create_folder(&models.folder, Readers::Owner)?;
    }
    let mut results = Results {
        pooled: Predictions::none(federation.task()),
        owners: Vec::new(),
        strangeness: Vec::new(),
        clients: Vec::new(),
        posteriors: Vec::new(),
        picker: SamplePicker::default(),
    };
    let mut collector = ReportCollector::new(simulation);
    let begun = Instant::now();
    let model_is_there = |client: usize| models.path(client).is_file();
    let (mut log, done) = EvaluationLog::open(path, &log_id(simulation, id), model_is_there)?;
    let earlier_seconds = done.last().map_or(0.0, |client| client.seconds);
    let (first, clients) = (done.len(), federation.clients());
    if first > 0 {
        tracing::info!(clients = first, "already evaluated");
    }
    for client in done {
        collector.observe(&client);
        results.add(simulation, client)?;
    }
    // Clients come in any order; what is written has theirs. Only those that came early wait.
    let mut early: BTreeMap<usize, EvaluatedClient> = BTreeMap::new();
    let further_inputs = |client| unseen_inputs(federation, client);
    let request = EvaluationRequest { first, models: true, further_inputs: &further_inputs };
    let mut evaluated = first;
    let outcome = simulation.evaluate(&request, |evaluation| {
        run.check_held().map_err(|error| SimulationError::callback(RunError::from(error)))?;
        let (mut client, model) = EvaluatedClient::of(evaluation);
        client.seconds = earlier_seconds + begun.elapsed().as_secs_f64();
        if let Some(model) = model.filter(|_| config.output.personal_models) {
            models.save(&model).map_err(SimulationError::callback)?;
            client.has_model = true;
        }
        early.insert(client.client, client);
        while let Some(next) = early.remove(&results.clients.len()) {
            // After its model, which is not made again.
            log.add(&next).map_err(SimulationError::callback)?;
            collector.observe(&next);
            results.add(simulation, next)?;
        }
        evaluated += 1;
        observer.evaluated(evaluated, clients);
        if observer.wants_to_stop() {
            let round = simulation.server().round();
            return Err(SimulationError::callback(RunError::Interrupted { round, rounds: config.rounds }));
        }
        Ok(())
    });
    log.sync()?;
    outcome?;
    if first > 0 {
        results.require_a_model()?;
    }
    let Results { pooled, owners, strangeness, clients, posteriors, picker } = results;
    if pooled.is_empty() {
        tracing::warn!("no client has test data: there is nothing to score");
    }
    let scores = pooled.scores().with_mean_accuracy(clients.iter().map(|client| &client.scores));
    let classes = ClassScores::of(&pooled, federation.class_names());
    let training_counts = |client: usize| Some(federation.label_counts(client, Split::Train));
    let accuracies: Vec<f64> = clients.iter().filter_map(|client| client.scores.accuracy()).collect();
    let details = ScoreDetails::of(&pooled, &owners, &accuracies, &classes, &training_counts);
    let table = PredictionsTable {
        federation,
        predictions: &pooled,
        owners: &owners,
        strangeness: &strangeness,
        suffixes: &match federation.task() {
            Task::Regression { outputs } => target_suffixes(config, outputs),
            Task::Classification { .. } => Vec::new(),
        },
    };
    // Ids of rows may be those of people.
    write_streamed(Readers::Owner, &path.join(PREDICTIONS_TABLE), |out| table.write(out))?;
    drop(strangeness);
    write_data_summary(federation, path)?;
    // With many clients predictions are most of what there is in memory: not one copy more than needed.
    let tensors = prediction_tensors(pooled, owners);
    write_tensors(&path.join("predictions.safetensors"), &tensors, None)?;
    drop(tensors);
    write_report_data(&path.join(REPORT_DATA), &collector.finish(picker))?;
    let posterior = PosteriorSummary::of(&posteriors);
    Ok(Evaluated { scores, clients, classes, details, posterior, earlier_seconds })
}

/// What is said of a table's columns: which are inputs and how, what was left out.
pub(super) const DATA_SUMMARY: &str = "data.json";

/// Writes it, where the data is a table.
fn write_data_summary(federation: &dyn Federation, path: &Path) -> Result<(), WriteError> {
    let target = path.join(DATA_SUMMARY);
    match federation.data_summary() {
        None => remove_file(&target),
        Some(summary) => {
            let text = serde_json::to_string_pretty(&summary)
                .map_err(|error| write_failed(&target)(error.into()))?;
            // The first cells that could not be read are in it.
            write_for(Readers::Owner, &target, text.as_bytes())
        }
    }
}
