//! What a run keeps of an evaluated client besides its model: all that scores, predictions and the report need.

use fedsi_bayes::TensorShare;
use fedsi_fl::client::{PersonalModel, PosteriorSummary, Predictions};
use fedsi_fl::parameters::Parameters;
use fedsi_fl::simulation::ClientEvaluation;
use serde::{Deserialize, Serialize};

use crate::predictions_file::{prediction_tensors, predictions_of};
use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError, tensor_bytes};

/// An evaluated client without its model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EvaluatedClient {
    /// The client.
    pub(crate) client: usize,
    /// Its test samples.
    pub(crate) samples: usize,
    /// What its posterior is like.
    pub(crate) posterior: Option<PosteriorSummary>,
    /// What its model predicts of the test samples; nothing where it has none.
    pub(crate) predictions: Predictions,
    /// Why its model predicts nothing, where it has test samples and does not.
    pub(crate) problem: Option<String>,
    /// How strange each test sample is to its model; none where it does not know.
    pub(crate) strangeness: Option<Vec<f64>>,
    /// Class probabilities for inputs of classes that it never saw.
    pub(crate) further_probabilities: Vec<f64>,
    /// Whether its model is saved.
    pub(crate) has_model: bool,
    /// What was spent on the evaluation until then.
    pub(crate) seconds: f64,
    /// Which parameters have a distribution, where its method chooses some.
    pub(crate) subnetwork: Option<ChosenParameters>,
}

/// The parameters that a client's posterior is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenParameters {
    /// Indices into all parameters.
    pub(crate) selected: Vec<u32>,
    /// How many of each tensor.
    pub(crate) tensors: Vec<TensorShare>,
}

impl ChosenParameters {
    /// Of a model's first mode: those of the others are drawn in the same way.
    fn of(model: &PersonalModel) -> Option<Self> {
        match &model.modes.first()?.parameters {
            Parameters::Laplace(laplace) => {
                let selected = laplace.fit.posterior().selected().iter();
                Some(Self {
                    selected: selected.filter_map(|&index| u32::try_from(index).ok()).collect(),
                    tensors: laplace.fit.explanation().layers.clone(),
                })
            }
            Parameters::Point(_) | Parameters::Gaussian(_) | Parameters::Samples(_) => None,
        }
    }
}

/// What a record's metadata says.
#[derive(Debug, Serialize, Deserialize)]
struct RecordMetadata {
    client: usize,
    samples: usize,
    posterior: Option<PosteriorSummary>,
    problem: Option<String>,
    has_model: bool,
    seconds: f64,
    tensors: Option<Vec<TensorShare>>,
}

impl EvaluatedClient {
    /// What is kept of an evaluation, and the model.
    pub(crate) fn of(evaluation: ClientEvaluation) -> (Self, Option<PersonalModel>) {
        let ClientEvaluation {
            client,
            samples,
            model,
            posterior,
            predictions,
            problem,
            strangeness,
            further_probabilities,
        } = evaluation;
        let subnetwork = model.as_ref().and_then(ChosenParameters::of);
        let kept = Self {
            client,
            samples,
            posterior,
            predictions,
            problem,
            strangeness,
            further_probabilities,
            has_model: false,
            seconds: 0.0,
            subnetwork,
        };
        (kept, model)
    }

    /// As bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, TensorFileError> {
        let mut tensors = prediction_tensors(self.predictions.clone(), Vec::new());
        let scores = self.strangeness.iter();
        tensors.extend(scores.map(|scores| NamedTensor::f64("strangeness", vec![scores.len()], scores)));
        let further = &self.further_probabilities;
        tensors.push(NamedTensor::f64("further_probabilities", vec![further.len()], further));
        tensors.extend(self.subnetwork.iter().map(|chosen| NamedTensor::u32("selected", &chosen.selected)));
        let entry = RecordMetadata {
            client: self.client,
            samples: self.samples,
            posterior: self.posterior,
            problem: self.problem.clone(),
            has_model: self.has_model,
            seconds: self.seconds,
            tensors: self.subnetwork.as_ref().map(|chosen| chosen.tensors.clone()),
        };
        tensor_bytes(&tensors, Some(&serde_json::to_value(entry).map_err(TensorFileError::Entry)?))
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, TensorFileError> {
        let file = TensorFile::parse(bytes)?;
        let RecordMetadata { client, samples, posterior, problem, has_model, seconds, tensors } =
            file.entry()?;
        let subnetwork = match tensors {
            Some(tensors) => Some(ChosenParameters { selected: file.u32("selected")?, tensors }),
            None => None,
        };
        let further_probabilities = file.f64("further_probabilities")?;
        let predictions = predictions_of(&file)?;
        let strangeness = if file.has("strangeness") { Some(file.f64("strangeness")?) } else { None };
        if strangeness.as_ref().is_some_and(|scores| scores.len() != predictions.len()) {
            return Err(TensorFileError::invalid("strangeness", "is not one number a prediction"));
        }
        Ok(Self {
            client,
            samples,
            posterior,
            predictions,
            problem,
            strangeness,
            further_probabilities,
            has_model,
            seconds,
            subnetwork,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let tensors = vec![TensorShare { tensor: "0.weight".to_owned(), chosen: 2, of: 9 }];
        let mut client = EvaluatedClient {
            client: 12,
            samples: 1,
            posterior: None,
            predictions: Predictions::Values {
                outputs: 1,
                mean: vec![0.1 + 0.2],
                variance: vec![1e-300],
                targets: vec![3.0],
            },
            problem: Some("it diverged".to_owned()),
            strangeness: Some(vec![0.1 + 0.2]),
            further_probabilities: vec![1.0 / 3.0],
            has_model: true,
            seconds: 0.1 + 0.2,
            subnetwork: Some(ChosenParameters { selected: vec![3, 8], tensors }),
        };
        assert_eq!(EvaluatedClient::decode(&client.encode().unwrap()).unwrap(), client);
        client.predictions = Predictions::Classes { classes: 3, probabilities: vec![], labels: vec![] };
        (client.subnetwork, client.strangeness) = (None, None);
        assert_eq!(EvaluatedClient::decode(&client.encode().unwrap()).unwrap(), client);
    }
}
