//! `predictions.safetensors`: every test prediction of a run beside what is true, and which client made it.

use fedsi_fl::client::Predictions;

use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError};

/// Reads the file's bytes.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_predictions(bytes: &[u8]) -> Result<Predictions, TensorFileError> {
    let file = TensorFile::parse(bytes)?;
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

/// The file's tensors: `client` says to which client each row belongs.
pub(crate) fn prediction_tensors(predictions: &Predictions, clients: &[usize]) -> Vec<NamedTensor> {
    let mut tensors = match predictions {
        Predictions::Classes { classes, probabilities, labels } => vec![
            NamedTensor::f32("probabilities", vec![labels.len(), *classes], probabilities),
            NamedTensor::i64("labels", labels.iter().map(|&label| i64::from(label))),
        ],
        Predictions::Values { outputs, mean, variance, targets } => {
            let shape = vec![targets.len() / outputs, *outputs];
            vec![
                NamedTensor::f64("mean", shape.clone(), mean),
                NamedTensor::f64("variance", shape.clone(), variance),
                NamedTensor::f64("targets", shape, targets),
            ]
        }
    };
    tensors.push(NamedTensor::i64("client", clients.iter().map(|&client| client as i64)));
    tensors
}
