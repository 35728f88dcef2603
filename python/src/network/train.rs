//! One phase of a client's training from Python: what a training loop of one's own is tried with.

use std::sync::Arc;

use fedsi_fl::Part;
use fedsi_fl::network::{Batches, ClientNetwork, NativeNetwork, PointTraining, PriorPull, TrainingData};
use fedsi_nn::{Loss, OptimizerSpec, Targets};
use fedsi_random::{Purpose, Streams};
use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::client::PythonClientNetwork;
use super::failure::python_error;
use super::layers;
use crate::errors::Kind;

/// What training needs besides network, values and data.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Phase<'py> {
    part: String,
    optimizer: String,
    learning_rate: f64,
    momentum: f64,
    epochs: usize,
    batch_size: usize,
    prior_mean: Option<PyReadonlyArray1<'py, f32>>,
    prior_weights: Option<PyReadonlyArray1<'py, f32>>,
    weight_noise: f64,
    convolution_noise: f64,
    seed: u64,
}

/// Trains a network (a `TorchNetwork`, or layers as JSON with the shape of an input) from `values` as a client does. Classes
/// are given as `labels` [N], a regression's targets as `targets` [N, outputs]. Returns the values after it and the mean loss
/// a sample over the last epoch.
#[pyfunction]
#[pyo3(signature = (network, values, inputs, labels, targets, phase))]
fn train_network<'py>(
    py: Python<'py>,
    network: &Bound<'py, PyAny>,
    values: PyReadonlyArray1<'py, f32>,
    inputs: PyReadonlyArray2<'py, f32>,
    labels: Option<PyReadonlyArray1<'py, i64>>,
    targets: Option<PyReadonlyArray2<'py, f32>>,
    phase: Phase<'py>,
) -> PyResult<(Bound<'py, PyArray1<f32>>, f64)> {
    let network: Arc<dyn ClientNetwork> = match network.extract::<(String, Vec<usize>)>() {
        Ok((specs, shape)) => Arc::new(NativeNetwork::new(layers::network(&specs, &shape)?)),
        Err(_) => PythonClientNetwork::new(network)?,
    };
    let part = match phase.part.as_str() {
        "all" => Part::All,
        "body" => Part::Body,
        "head" => Part::Head,
        other => return Err(Kind::Input.error(format!("part: expected all, body or head, found {other:?}"))),
    };
    let optimizer = match phase.optimizer.as_str() {
        "adam" => OptimizerSpec::adam(phase.learning_rate),
        "sgd" => OptimizerSpec::Sgd { rate: phase.learning_rate, momentum: phase.momentum },
        other => return Err(Kind::Input.error(format!("optimizer: expected adam or sgd, found {other:?}"))),
    };
    let length = |what: &str, found: usize, expected: usize| match found == expected {
        true => Ok(()),
        false => Err(Kind::Input.error(format!("{what}: expected {expected}, found {found}"))),
    };
    let flat = |array: &PyReadonlyArray1<'py, f32>| array.as_array().to_vec();
    let (mut values, samples) = (flat(&values), inputs.as_array().nrows());
    let size = network.layout().len();
    length("values", values.len(), size)?;
    length("values of an input", inputs.as_array().ncols(), network.input_size())?;
    let prior = phase.prior_mean.as_ref().map(flat).zip(phase.prior_weights.as_ref().map(flat));
    if let Some((mean, weights)) = &prior {
        length("prior_mean", mean.len(), size)?;
        length("prior_weights", weights.len(), size)?;
    }
    let classes = labels.map(|labels| classes(&labels, network.output_size())).transpose()?;
    let numbers: Option<Vec<f32>> = targets.map(|targets| targets.as_array().iter().copied().collect());
    match (&classes, &numbers) {
        (Some(classes), None) => length("labels", classes.len(), samples)?,
        (None, Some(numbers)) => length("targets", numbers.len(), samples * network.output_size())?,
        _ => return Err(Kind::Input.error("expected either labels or targets")),
    }
    let inputs: Vec<f32> = inputs.as_array().iter().copied().collect();
    let Phase { epochs, batch_size, weight_noise, convolution_noise, seed, .. } = phase;
    let trained = py.detach(|| {
        let (targets, loss) = match (&classes, &numbers) {
            (Some(classes), _) => (Targets::Classes(classes), Loss::CrossEntropy),
            (None, numbers) => {
                (Targets::Values(numbers.as_deref().unwrap_or_default()), Loss::Gaussian { noise: 1.0 })
            }
        };
        let training = PointTraining {
            part,
            optimizer,
            loss,
            data: TrainingData { id: None, inputs: &inputs, targets },
            prior: prior.as_ref().map(|(mean, weights)| PriorPull { mean, weights }),
            weight_noise,
            convolution_noise,
        };
        let mut rng = Streams::new(seed).stream(Purpose::Batches, 0, 0);
        let mut batches = Batches::shuffled(samples, epochs, batch_size.clamp(1, samples.max(1)), &mut rng);
        network.train(&training, &mut values, &mut batches)
    });
    match trained {
        Ok(loss) => Ok((values.into_pyarray(py), loss)),
        Err(error) => Err(python_error(&error).unwrap_or_else(|| Kind::Network.error(error))),
    }
}

fn classes(labels: &PyReadonlyArray1<'_, i64>, outputs: usize) -> PyResult<Vec<u32>> {
    let class = |&label: &i64| {
        u32::try_from(label).ok().filter(|&label| (label as usize) < outputs).ok_or_else(|| {
            Kind::Input.error(format!("labels: expected classes from 0 to {}, found {label}", outputs - 1))
        })
    };
    labels.as_array().iter().map(class).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(train_network, module)?)
}
