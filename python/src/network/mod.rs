//! Networks of Python: an object with the methods of `fedsi.torch_network.TorchNetwork` as a network of the engine.

mod client;
mod failure;
pub(crate) mod layers;
mod train;

use std::fmt;
use std::sync::Arc;

use fedsi_bayes::{BatchJacobian, EvaluationError, LinearisedNetwork};
use fedsi_nn::Layout;
use numpy::{PyArray1, PyArrayMethods as _, PyReadonlyArrayDyn};
use pyo3::intern;
use pyo3::prelude::*;

#[allow(unused_imports, reason = "for the bindings of posteriors and federations")]
pub(crate) use client::client_network;
#[allow(unused_imports, reason = "for the bindings of posteriors and federations")]
pub(crate) use failure::python_error;

use crate::errors::Kind;
use failure::PythonFailure;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    client::register(module)?;
    layers::register(module)?;
    train::register(module)
}

/// A network whose outputs, derivatives and training are methods of a Python object. May be called from any thread, which
/// must not wait for another that holds the interpreter lock.
pub(crate) struct PythonNetwork {
    object: Py<PyAny>,
    layout: Layout,
    inputs: usize,
    outputs: usize,
}

impl PythonNetwork {
    /// Asks the object for its parameters' names and shapes (`tensors()`), `input_size` and `output_size`.
    ///
    /// # Errors
    /// `NetworkError` for an object without them, or whose parameters are not counted as the engine counts them; what the
    /// object raises.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let tensors: Vec<(String, Vec<usize>)> = object
            .call_method0(intern!(object.py(), "tensors"))
            .and_then(|tensors| tensors.extract())
            .map_err(|error| not_a_network(object, error))?;
        let size = |name: &str| -> PyResult<usize> {
            object.getattr(name).and_then(|size| size.extract()).map_err(|error| not_a_network(object, error))
        };
        let (inputs, outputs) = (size("input_size")?, size("output_size")?);
        let layout = Layout::of_tensors(tensors);
        if layout.is_empty() || inputs == 0 || outputs == 0 {
            return Err(Kind::Network.error(format!(
                "network: {} parameters, {inputs} inputs and {outputs} outputs: expected at least one of each",
                layout.len()
            )));
        }
        Ok(Arc::new(Self { object: object.clone().unbind(), layout, inputs, outputs }))
    }

    /// The object itself.
    #[allow(dead_code, reason = "for the bindings of posteriors and federations")]
    pub(crate) const fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// Calls a method with the interpreter lock; what it raises is kept.
    fn call<T>(
        &self,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, PythonFailure> {
        Python::attach(|py| work(self.object.bind(py)).map_err(|error| PythonFailure::new(py, error)))
    }
}

fn not_a_network(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let found = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    let refused = Kind::Network.error(format!(
        "network: expected a fedsi.torch_network.TorchNetwork, or an object with its methods; found {found}: {error}"
    ));
    refused.set_cause(object.py(), Some(error));
    refused
}

impl fmt::Debug for PythonNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonNetwork")
            .field("parameters", &self.layout.len())
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// The numbers of an array that a method returned, in the order of their indices.
fn numbers<T: numpy::Element + Copy>(what: &str, found: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let array: PyReadonlyArrayDyn<'_, T> =
        found.extract().map_err(|error| Kind::Network.error(format!("the network's {what}: {error}")))?;
    let array = array.as_array();
    Ok(array.as_slice().map_or_else(|| array.iter().copied().collect(), <[T]>::to_vec))
}

/// Rows of `width` numbers as an array of two dimensions.
fn rows<'py, T: numpy::Element>(
    py: Python<'py>,
    values: &[T],
    width: usize,
) -> PyResult<Bound<'py, numpy::PyArray2<T>>> {
    PyArray1::from_slice(py, values).reshape([values.len() / width, width])
}

impl LinearisedNetwork for PythonNetwork {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        self.call(|object| {
            let py = object.py();
            let arguments = (PyArray1::from_slice(py, parameters), rows(py, inputs, self.inputs)?);
            numbers("outputs", &object.call_method1(intern!(py, "forward"), arguments)?)
        })
        .map_err(EvaluationError::caused_by)
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        self.call(|object| {
            let py = object.py();
            let chosen = PyArray1::from_iter(py, chosen.iter().map(|&index| index as i64));
            let arguments = (PyArray1::from_slice(py, parameters), rows(py, inputs, self.inputs)?, chosen);
            let found = object.call_method1(intern!(py, "jacobian"), arguments)?;
            let (outputs, derivatives): (Bound<'_, PyAny>, Bound<'_, PyAny>) = found.extract()?;
            Ok(BatchJacobian {
                outputs: numbers("outputs", &outputs)?,
                derivatives: numbers("derivatives", &derivatives)?,
            })
        })
        .map_err(EvaluationError::caused_by)
    }
}
