//! The native part of the Python package `fedsi`: thin bindings, one file for each part of the package. Nothing is computed
//! here that the crates do not compute.

mod compare;
mod config;
mod errors;
mod federation;
mod interrupt;
mod laplace;
mod logging;
mod metrics;
mod network;
mod partition;
mod run;
mod saved;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    logging::forward_to_python();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    run::register(module)?;
    saved::register(module)?;
    compare::register(module)?;
    metrics::register(module)?;
    partition::register(module)?;
    network::register(module)?;
    laplace::register(module)?;
    federation::register(module)
}
