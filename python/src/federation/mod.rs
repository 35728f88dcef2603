//! The two ends of a federation: the server's, and that of a client's own site. Who carries bytes between them is Python code.

mod arrays;
mod coordinator;
mod data;
mod raised;
mod site;

use fedsi_fl::config::{Overrides, commented};
use fedsi_fl::{Checked, Registry};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::config::{checked, layers, refused};
use crate::errors::Kind;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<coordinator::Coordinator>()?;
    module.add_class::<site::Site>()?;
    module.add_function(wrap_pyfunction!(data::describe_site, module)?)?;
    module.add_function(wrap_pyfunction!(data::agree, module)?)?;
    module.add_function(wrap_pyfunction!(data::needs_description, module)?)?;
    module.add_function(wrap_pyfunction!(resolve_config, module)?)
}

/// The settings of a federation as TOML text, complete and checked: what a server sends to its sites.
#[pyfunction]
#[pyo3(signature = (config = None, settings = None))]
fn resolve_config(
    config: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let config = checked(&layers(config, settings)?)?;
    commented(&config).map_err(refused)
}

/// The config in TOML text that [`resolve_config`] wrote.
fn read_config(text: &str) -> PyResult<Checked> {
    let registry = Registry::builtin();
    let layers = [Overrides::from_text("config_toml", text).map_err(refused)?];
    registry.resolve(&layers).and_then(|config| registry.check(config)).map_err(refused)
}

/// A record as Python has it: dicts, lists, numbers and text.
fn to_python(py: Python<'_>, record: &impl Serialize) -> PyResult<Py<PyAny>> {
    let text = serde_json::to_string(record).map_err(|error| Kind::Federation.error(error))?;
    Ok(py.import("json")?.call_method1("loads", (text,))?.unbind())
}
