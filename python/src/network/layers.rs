//! The engine's own layers, as Python writes them down.

use fedsi_nn::{LayerSpec, Network, Tape};
use fedsi_random::{Purpose, SERVER, Streams};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::Kind;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(layers_refusal, module)?)?;
    module.add_function(wrap_pyfunction!(layers_initial, module)?)?;
    module.add_function(wrap_pyfunction!(layers_outputs, module)?)
}

/// A network of the engine's layers: `layers` is JSON as in a config, `input_shape` the shape of one input.
///
/// # Errors
/// `NetworkError` for layers that cannot be read or do not fit together.
pub(crate) fn network(layers: &str, input_shape: &[usize]) -> PyResult<Network> {
    let specs: Vec<LayerSpec> =
        serde_json::from_str(layers).map_err(|error| Kind::Network.error(format!("layers: {error}")))?;
    Network::new(input_shape, &specs).map_err(|error| Kind::Network.error(error))
}

/// Why these layers (JSON) do not make a network for inputs of this shape; None where they do.
#[pyfunction]
fn layers_refusal(py: Python<'_>, layers: &str, input_shape: Vec<usize>) -> Option<String> {
    network(layers, &input_shape).err().map(|error| error.value(py).to_string())
}

/// The parameters that a federation of these layers (JSON) with this seed starts from: for a torch module that is to start
/// from the same.
#[pyfunction]
fn layers_initial<'py>(
    py: Python<'py>,
    layers: &str,
    input_shape: Vec<usize>,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let mut rng = Streams::new(seed).stream(Purpose::Initialisation, SERVER, 0);
    let initial: Vec<f32> = network(layers, &input_shape)?.initialise(&mut rng);
    Ok(PyArray1::from_vec(py, initial))
}

/// The outputs of these layers (JSON) in float64 for `inputs` [N, values of one input].
#[pyfunction]
fn layers_outputs<'py>(
    py: Python<'py>,
    layers: &str,
    input_shape: Vec<usize>,
    parameters: PyReadonlyArray1<'py, f64>,
    inputs: PyReadonlyArray2<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let network = network(layers, &input_shape)?;
    let (parameters, inputs) = (parameters.as_array().to_vec(), inputs.as_array());
    if parameters.len() != network.layout().len() || inputs.ncols() != network.inputs() {
        return Err(Kind::Input.error(format!(
            "expected {} parameters and inputs of {} values, found {} and {}",
            network.layout().len(),
            network.inputs(),
            parameters.len(),
            inputs.ncols()
        )));
    }
    let (samples, inputs): (usize, Vec<f64>) = (inputs.nrows(), inputs.iter().copied().collect());
    let outputs = py.detach(|| {
        const BATCH: usize = 128;
        let mut tape = Tape::new(&network, samples.clamp(1, BATCH));
        let mut outputs = Vec::with_capacity(samples * network.outputs());
        for rows in inputs.chunks(BATCH * network.inputs()) {
            tape.inputs_mut(&network, rows.len() / network.inputs()).copy_from_slice(rows);
            outputs.extend_from_slice(tape.forward(&network, &parameters));
        }
        outputs
    });
    PyArray1::from_vec(py, outputs).reshape([samples, network.outputs()])
}
