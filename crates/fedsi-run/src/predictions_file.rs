//! `predictions.safetensors`: every test prediction of a run beside what is true, and which client made it.

use fedsi_fl::client::Predictions;

use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError};

/// Reads the file's bytes.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_predictions(bytes: &[u8]) -> Result<Predictions, TensorFileError> {
    predictions_of(&TensorFile::parse(bytes)?)
}

/// The predictions among a file's tensors.
pub(crate) fn predictions_of(file: &TensorFile<'_>) -> Result<Predictions, TensorFileError> {
    if !file.has("probabilities") {
        let [_, outputs] = file.matrix("mean")?;
        let (mean, variance, targets) = (file.f64("mean")?, file.f64("variance")?, file.f64("targets")?);
        for (name, values) in [("variance", &variance), ("targets", &targets)] {
            if values.len() != mean.len() {
                return Err(TensorFileError::invalid(name, "is not as long as `mean`"));
            }
        }
        return Ok(Predictions::Values { outputs, mean, variance, targets });
    }
    let [rows, classes] = file.matrix("probabilities")?;
    let labels: Vec<u32> = file.indices("labels")?;
    if labels.len() != rows {
        return Err(TensorFileError::invalid("labels", "are not as many as rows of `probabilities`"));
    }
    Ok(Predictions::Classes { classes, probabilities: file.f32("probabilities")?, labels })
}

/// The client that each row of the file belongs to.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_prediction_clients(bytes: &[u8]) -> Result<Vec<usize>, TensorFileError> {
    TensorFile::parse(bytes)?.indices("client")
}

/// The file's tensors: `clients` says to which client each row belongs. Takes what it converts, so that at no time both
/// are there whole.
#[must_use]
pub fn prediction_tensors(predictions: Predictions, clients: Vec<usize>) -> Vec<NamedTensor> {
    let mut tensors = vec![NamedTensor::i64("client", clients.into_iter().map(|client| client as i64))];
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            let shape = vec![labels.len(), classes];
            tensors.push(NamedTensor::i64("labels", labels.into_iter().map(i64::from)));
            tensors.push(NamedTensor::f32("probabilities", shape, &probabilities));
        }
        Predictions::Values { outputs, mean, variance, targets } => {
            let shape = vec![targets.len() / outputs, outputs];
            for (name, values) in [("mean", mean), ("variance", variance), ("targets", targets)] {
                tensors.push(NamedTensor::f64(name, shape.clone(), &values));
            }
        }
    }
    tensors
}

/// The most probable class, among equals the lowest, and its probability.
#[must_use]
pub fn most_probable(probabilities: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, &probability) in probabilities.iter().enumerate() {
        if probability > best.1 {
            best = (class, probability);
        }
    }
    best
}
