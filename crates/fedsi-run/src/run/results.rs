//! What a run leaves of its models: the server's, each client's, their predictions and scores.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fedsi_fl::client::{PersonalModel, PosteriorSummary, Predictions};
use fedsi_fl::scores::Scores;
use fedsi_fl::simulation::{ClientEvaluation, EvaluationRequest};
use fedsi_fl::{Checked, Simulation, SimulationError};

use super::Observer;
use crate::RunError;
use crate::files::{WriteError, write_failed};
use crate::model_file::model_tensors;
use crate::predictions_file::prediction_tensors;
use crate::report_data::{REPORT_DATA, ReportCollector, SamplePicker, unseen_inputs, write_report_data};
use crate::summary::ClientScores;
use crate::tensor_file::{NamedTensor, TensorFileError, parameter_tensors, write_tensors};

/// What a saved model needs to be used elsewhere: its layers, what goes in and what comes out.
fn describe(simulation: &Simulation, config: &Checked) -> Result<serde_json::Value, RunError> {
    let federation = simulation.federation();
    let network = config.network(federation.input_shape(), federation.task())?;
    Ok(serde_json::json!({
        "input": network.input_shape(),
        "layers": network.specs(),
        "class_names": federation.class_names(),
        "columns": federation.input_columns(),
        "pixels": federation.has_pixels(),
        "input_scaling": federation.input_scaling(),
        "target_scaling": federation.target_scaling(),
    }))
}

/// `checkpoint/server.safetensors`: the network a new client would start from, and the variances of the shared
/// part where the server holds a Gaussian.
pub(super) fn save_server(simulation: &Simulation, config: &Checked, path: &Path) -> Result<(), RunError> {
    let folder = path.join("checkpoint");
    fs::create_dir_all(&folder).map_err(write_failed(&folder))?;
    let (client, server) = (simulation.client(), simulation.server());
    let mut tensors = parameter_tensors(client.network().layout(), simulation.global_parameters()?.values());
    if let Some(variance) = server.shared().variance() {
        tensors.push(NamedTensor::f32("server.variance", vec![variance.len()], variance));
    }
    let entry = serde_json::json!({
        "format": "fedsi-model-2",
        "round": server.round(),
        "shared": client.procedure().shared.to_string(),
        "prior_variance": server.prior_variance(),
        "model": describe(simulation, config)?,
    });
    Ok(write_tensors(&folder.join("server.safetensors"), &tensors, Some(&entry))?)
}

/// Where personal models are saved, and what all of their files say.
struct ModelFolder<'a> {
    simulation: &'a Simulation,
    config: &'a Checked,
    folder: PathBuf,
    description: serde_json::Value,
}

impl ModelFolder<'_> {
    fn save(&self, model: &PersonalModel) -> Result<(), WriteError> {
        let file = self.folder.join(format!("{}.safetensors", model.client));
        let (tensors, entry) = model_tensors(self.simulation.client(), model);
        let invalid = |error| write_failed(&file)(std::io::Error::other(TensorFileError::Entry(error)));
        let mut entry = serde_json::to_value(entry).map_err(invalid)?;
        entry["format"] = "fedsi-model-2".into();
        entry["name"] = self.simulation.federation().client_name(model.client).into();
        entry["method"] = self.config.method.clone().into();
        entry["model"] = self.description.clone();
        write_tensors(&file, &tensors, Some(&entry))
    }
}

/// What is gathered of evaluated clients, in their order.
struct Results {
    pooled: Predictions,
    /// The client that each prediction belongs to.
    owners: Vec<usize>,
    clients: Vec<ClientScores>,
    posteriors: Vec<PosteriorSummary>,
    picker: SamplePicker,
}

impl Results {
    fn add(&mut self, simulation: &Simulation, evaluation: ClientEvaluation) -> Result<(), SimulationError> {
        let federation = simulation.federation();
        let ClientEvaluation { client: id, samples, posterior, predictions, .. } = evaluation;
        let name = federation.client_name(id).map(str::to_owned);
        self.posteriors.extend(posterior);
        self.picker.add(id, federation.clients(), &predictions);
        self.clients.push(ClientScores { id, name, samples, scores: predictions.scores() });
        self.owners.extend(std::iter::repeat_n(id, predictions.len()));
        Ok(self.pooled.append(predictions)?)
    }
}

/// Personal models, predictions and scores.
pub(super) fn evaluate(
    simulation: &Simulation,
    config: &Checked,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<(Scores, Vec<ClientScores>, Option<PosteriorSummary>), RunError> {
    let federation = simulation.federation();
    let models = ModelFolder {
        simulation,
        config,
        folder: path.join("clients"),
        description: describe(simulation, config)?,
    };
    if config.output.personal_models {
        fs::create_dir_all(&models.folder).map_err(write_failed(&models.folder))?;
    }
    let mut results = Results {
        pooled: Predictions::none(federation.task()),
        owners: Vec::new(),
        clients: Vec::new(),
        posteriors: Vec::new(),
        picker: SamplePicker::default(),
    };
    let mut collector = ReportCollector::new(simulation);
    // Clients come in any order; what is written has theirs. Only those that came early wait.
    let mut early: BTreeMap<usize, ClientEvaluation> = BTreeMap::new();
    let further_inputs = |client| unseen_inputs(federation, client);
    let request = EvaluationRequest { first: 0, models: true, further_inputs: &further_inputs };
    let mut evaluated = 0;
    simulation.evaluate(&request, |mut evaluation| {
        collector.observe(&evaluation);
        if let Some(model) = evaluation.model.take().filter(|_| config.output.personal_models) {
            models.save(&model).map_err(SimulationError::callback)?;
        }
        early.insert(evaluation.client, evaluation);
        while let Some(next) = early.remove(&results.clients.len()) {
            results.add(simulation, next)?;
        }
        evaluated += 1;
        observer.evaluated(evaluated, federation.clients());
        if observer.wants_to_stop() {
            let round = simulation.server().round();
            return Err(SimulationError::callback(RunError::Interrupted { round, rounds: config.rounds }));
        }
        Ok(())
    })?;
    let Results { pooled, owners, clients, posteriors, picker } = results;
    if pooled.is_empty() {
        tracing::warn!("no client has test data: there is nothing to score");
    }
    let scores = pooled.scores().with_mean_accuracy(clients.iter().map(|client| &client.scores));
    // With many clients predictions are most of what there is in memory: not one copy more than needed.
    let tensors = prediction_tensors(pooled, owners);
    write_tensors(&path.join("predictions.safetensors"), &tensors, None)?;
    drop(tensors);
    write_report_data(&path.join(REPORT_DATA), &collector.finish(picker))?;
    Ok((scores, clients, PosteriorSummary::of(&posteriors)))
}
