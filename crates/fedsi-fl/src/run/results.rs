//! What a run leaves of its models: the server's, each client's, their predictions and scores.

use std::fs;
use std::path::Path;

use super::Observer;
use crate::RunError;
use crate::belief::Belief;
use crate::config::Checked;
use crate::exhibits::{self, Picker, Witness};
use crate::files::{Values, parameter_tensors, prediction_tensors, write_tensors};
use crate::model_file;
use crate::predict::Predictions;
use crate::record::{ClientScores, PosteriorSummary, Scores};
use crate::simulation::{Evaluated, Simulation};

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
pub(super) fn save_server(simulation: &Simulation, path: &Path) -> Result<(), RunError> {
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
pub(super) fn evaluate(
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
