//! What a run leaves of its models: the server's, each client's, their predictions and scores.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use fedsi_data::{Federation, Split, Task, hexadecimal};
use fedsi_fl::calibration::Calibration;
use fedsi_fl::client::{PosteriorSummary, Predictions};
use fedsi_fl::scores::Scores;
use fedsi_fl::simulation::EvaluationRequest;
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
use crate::naming::target_suffixes;
use crate::personal_file::{PersonalFiles, describe};
use crate::predictions_file::prediction_tensors;
use crate::predictions_table::{PREDICTIONS_TABLE, PredictionsTable};
use crate::report_data::{REPORT_DATA, ReportCollector, SamplePicker, unseen_inputs, write_report_data};
use crate::score_details::ScoreDetails;
use crate::summary::ClientScores;
use crate::tensor_file::write_tensors;

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
        let novel = simulation.server().settings().novel_clients.binary_search(&id).is_ok();
        self.clients.push(ClientScores { id, name, samples, problem, novel, scores: predictions.scores() });
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
    let Calibration { prior_variance, temperature, mixture_temperature, temperature_alone: _ } =
        server.calibration();
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
    let folder = path.join("clients");
    let file = |client: usize| folder.join(format!("{client}.safetensors"));
    let description = describe(federation, config, true)?;
    let client = simulation.client();
    let models = PersonalFiles { client, federation, method: &config.method, id, description };
    if config.output.personal_models {
        create_folder(&folder, Readers::Owner)?;
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
    let model_is_there = |client: usize| file(client).is_file();
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
            models.save(&file(model.client), &model).map_err(SimulationError::callback)?;
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
