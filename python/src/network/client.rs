//! Networks of Python for the clients of a federation.

use std::sync::Arc;

use fedsi_bayes::LinearisedNetwork;
use fedsi_fl::Checked;
use fedsi_fl::methods::{Objective, Procedure};
use fedsi_fl::network::{
    Batches, ClientNetwork, NetworkFailure, PointTraining, PriorPull, UnsupportedTraining,
};
use fedsi_nn::{Layout, Loss, OptimizerSpec, Targets};
use fedsi_random::ChaCha8Rng;
use numpy::{IntoPyArray as _, PyArray1};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rand::Rng as _;

use super::{PythonNetwork, numbers, rows};
use crate::config::{checked, layers};
use crate::errors::Kind;

/// Seeds for Python are whole numbers that fit a signed integer of 64 bits.
const SEED_BITS: u64 = i64::MAX as u64;

/// A network of Python that clients train.
#[derive(Debug)]
pub(crate) struct PythonClientNetwork(Arc<PythonNetwork>);

impl PythonClientNetwork {
    /// [`PythonNetwork::new`] for a network that clients train: it must say that it can be (`refusal_of_training()`), and
    /// give its initial values.
    ///
    /// # Errors
    /// `NetworkError` for a network that cannot; what the object raises.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let network = PythonNetwork::new(object)?;
        let refusal: Option<String> =
            object.call_method0(intern!(object.py(), "refusal_of_training"))?.extract()?;
        if let Some(refusal) = refusal {
            return Err(Kind::Network.error(format!("network: {refusal}")));
        }
        let client = Self(network);
        // The engine asks for initial values where no error can be told: what fails does so here.
        let initial = client.initial_values(object, 0)?;
        if initial.len() != client.0.layout.len() {
            let (expected, found) = (client.0.layout.len(), initial.len());
            return Err(Kind::Network.error(format!(
                "network: initialise() gave {found} values, expected {expected}, one for each parameter"
            )));
        }
        Ok(Arc::new(client))
    }

    fn initial_values(&self, object: &Bound<'_, PyAny>, seed: u64) -> PyResult<Vec<f32>> {
        let found = object.call_method1(intern!(object.py(), "initialise"), (seed & SEED_BITS,))?;
        numbers("initial values", &found)
    }

    fn failed(failure: super::PythonFailure) -> NetworkFailure {
        NetworkFailure { kind: Some(failure.kind().to_owned()), source: Box::new(failure) }
    }

    fn of_rows(&self, method: &str, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.0
            .call(|object| {
                let py = object.py();
                let arguments = (PyArray1::from_slice(py, values), rows(py, inputs, self.0.inputs)?);
                numbers(method, &object.call_method1(method, arguments)?)
            })
            .map_err(Self::failed)
    }
}

/// A network of Python for the clients of a federation with this config.
///
/// # Errors
/// `NetworkError`, before anything is trained, for a network that cannot be trained, or not by the config's method; what the
/// object raises.
pub(crate) fn client_network(
    object: &Bound<'_, PyAny>,
    config: &Checked,
) -> PyResult<Arc<dyn ClientNetwork>> {
    refuse_unsupported(config.method().name, &config.procedure())?;
    let network: Arc<dyn ClientNetwork> = PythonClientNetwork::new(object)?;
    Ok(network)
}

/// Networks of Python train point values, no distributions or samples: methods that do are refused in the engine's words.
fn refuse_unsupported(method: &str, procedure: &Procedure) -> PyResult<()> {
    let unsupported = |objective: &Objective| match objective {
        Objective::Point { .. } => None,
        Objective::Variational { .. } => Some("train a distribution of its parameters"),
        Objective::Sample { .. } => Some("draw samples of its head"),
        Objective::OverSamples => Some("train its body under several heads"),
    };
    let mut phases = procedure.local.iter().chain(&procedure.personalise);
    match phases.find_map(|phase| unsupported(&phase.objective)) {
        None => Ok(()),
        Some(what) => Err(Kind::Network.error(format!(
            "method {method:?}: {}; choose a method that trains point values, such as fedsi, fedavg, fedper or fedrep, or a \
             network of the engine's own layers",
            UnsupportedTraining(what)
        ))),
    }
}

/// Raises what `run_in_process` would before anything is trained: `NetworkError` for a network that clients cannot train, or
/// not by the method of these settings; `ConfigError` for settings that do not exist.
#[pyfunction]
#[pyo3(signature = (network, config = None, settings = None))]
fn check_network(
    network: &Bound<'_, PyAny>,
    config: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    client_network(network, &checked(&layers(config, settings)?)?).map(drop)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_network, module)?)
}

impl ClientNetwork for PythonClientNetwork {
    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn input_size(&self) -> usize {
        self.0.inputs
    }

    fn output_size(&self) -> usize {
        self.0.outputs
    }

    /// Values that are not numbers where Python fails, which whoever uses them refuses: it did not fail when the network
    /// was made.
    fn initialise(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let seed = rng.next_u64();
        let found = self.0.call(|object| self.initial_values(object, seed));
        found.unwrap_or_else(|error| {
            tracing::error!("the network's initialise() failed: {error}");
            vec![f32::NAN; self.0.layout.len()]
        })
    }

    fn outputs(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.of_rows("outputs", values, inputs)
    }

    fn features(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.of_rows("features", values, inputs)
    }

    fn linearised(&self) -> Arc<dyn LinearisedNetwork> {
        Arc::clone(&self.0) as Arc<dyn LinearisedNetwork>
    }

    fn train(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, NetworkFailure> {
        let (epochs, seed) = drawn(batches, training.data.inputs.len() / self.0.inputs);
        let trained = self.0.call(|object| {
            let py = object.py();
            let request = self.request(py, training, epochs, seed)?;
            let arguments = (request, PyArray1::from_slice(py, values));
            let found = object.call_method1(intern!(py, "train"), arguments)?;
            let (after, loss): (Bound<'_, PyAny>, f64) = found.extract()?;
            let after: Vec<f32> = numbers("values after training", &after)?;
            if after.len() != values.len() {
                let (expected, found) = (values.len(), after.len());
                return Err(Kind::Network
                    .error(format!("the network's train() returned {found} values, expected {expected}")));
            }
            Ok((after, loss))
        });
        let (after, loss) = trained.map_err(Self::failed)?;
        values.copy_from_slice(&after);
        Ok(loss)
    }
}

impl PythonClientNetwork {
    /// The training as a `fedsi.training.TrainingRequest`.
    fn request<'py>(
        &self,
        py: Python<'py>,
        training: &PointTraining<'_>,
        epochs: Vec<Vec<Vec<i64>>>,
        seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let PointTraining { part, optimizer, loss, data, prior, weight_noise, convolution_noise } = *training;
        let request = PyDict::new(py);
        request.set_item("part", part.to_string())?;
        let settings = PyDict::new(py);
        let (name, rate) = match optimizer {
            OptimizerSpec::Adam { rate, beta1, beta2, epsilon } => {
                settings.set_item("beta1", beta1)?;
                settings.set_item("beta2", beta2)?;
                settings.set_item("epsilon", epsilon)?;
                ("adam", rate)
            }
            OptimizerSpec::Sgd { rate, momentum } => {
                settings.set_item("momentum", momentum)?;
                ("sgd", rate)
            }
        };
        request.set_item("optimizer", name)?;
        request.set_item("learning_rate", rate)?;
        request.set_item("optimizer_settings", settings)?;
        let (loss, noise) = match loss {
            Loss::CrossEntropy => ("cross_entropy", 1.0),
            Loss::Gaussian { noise } => ("gaussian", noise),
        };
        request.set_item("loss", loss)?;
        request.set_item("observation_noise", noise)?;
        request.set_item("inputs", rows(py, data.inputs, self.0.inputs)?)?;
        match data.targets {
            Targets::Classes(classes) => {
                let classes = classes.iter().map(|&class| i64::from(class));
                request.set_item("targets", PyArray1::from_iter(py, classes))?;
            }
            Targets::Values(values) => request.set_item("targets", rows(py, values, self.0.outputs)?)?,
        }
        let lists = epochs.into_iter().map(|epoch| {
            PyList::new(py, epoch.into_iter().map(|batch| batch.into_pyarray(py)).collect::<Vec<_>>())
        });
        request.set_item("epochs", PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)?)?;
        let prior = prior.map(|PriorPull { mean, weights }| {
            (PyArray1::from_slice(py, mean), PyArray1::from_slice(py, weights))
        });
        let (mean, weights) = prior.unzip();
        request.set_item("prior_mean", mean)?;
        request.set_item("prior_weights", weights)?;
        request.set_item("weight_noise", weight_noise)?;
        request.set_item("convolution_noise", convolution_noise)?;
        request.set_item("seed", seed & SEED_BITS)?;
        py.import("fedsi.training")?.getattr("TrainingRequest")?.call((), Some(&request))
    }
}

/// All batches by epoch, as the engine draws them, and a seed for the draws of the steps. The seed comes from the same stream
/// after the last batch, so that the batches are those of a training that draws nothing else.
fn drawn(batches: &mut Batches<'_>, samples: usize) -> (Vec<Vec<Vec<i64>>>, u64) {
    let (mut epochs, mut seen, mut seed): (Vec<Vec<Vec<i64>>>, usize, u64) = (Vec::new(), samples, 0);
    let mut left = batches.steps();
    batches.run(|rows, rng| {
        if seen >= samples {
            epochs.push(Vec::new());
            seen = 0;
        }
        seen += rows.len();
        if let Some(epoch) = epochs.last_mut() {
            epoch.push(rows.iter().map(|&row| i64::from(row)).collect());
        }
        left = left.saturating_sub(1);
        if left == 0 {
            seed = rng.next_u64();
        }
        0.0
    });
    (epochs, seed)
}
