//! What can be run, as JSON: methods, datasets, a resolved config, the schema of configs.

use fedsi_data::Size;
use fedsi_fl::Registry;
use fedsi_fl::methods::Uncertainty;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use super::resolved;
use crate::config::{layers, refused};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(methods_json, module)?)?;
    module.add_function(wrap_pyfunction!(datasets_json, module)?)?;
    module.add_function(wrap_pyfunction!(config_json, module)?)?;
    module.add_function(wrap_pyfunction!(schema_json, module)?)?;
    Ok(())
}

/// Every method with what it shares, keeps and evaluates under its defaults on the built-in digits.
#[pyfunction]
fn methods_json() -> PyResult<String> {
    let registry = Registry::builtin();
    let mut all = Vec::with_capacity(registry.methods().len());
    for method in registry.methods() {
        let config = registry
            .defaults(method.name, "digits", Size::Small)
            .and_then(|config| registry.check(config))
            .map_err(refused)?;
        let procedure = config.procedure();
        let uncertainty = match procedure.uncertainty {
            Uncertainty::None => "none",
            Uncertainty::Laplace(_) => "laplace",
            Uncertainty::MeanField(_) => "mean-field",
            Uncertainty::Samples(_) => "samples",
        };
        all.push(json!({
            "name": method.name,
            "title": method.title,
            "source": method.source,
            "idea": method.idea,
            "shares": procedure.shared.to_string(),
            "keeps": procedure.kept.to_string(),
            "uncertainty": uncertainty,
            "evaluated": method.evaluated,
        }));
    }
    Ok(Value::Array(all).to_string())
}

/// Every dataset with its form and the number of its samples, where those are fixed.
#[pyfunction]
fn datasets_json() -> String {
    let registry = Registry::builtin();
    let datasets = registry.datasets();
    let entry = |name: &str| {
        let dataset = datasets.find(name).ok()?;
        let form = dataset.form();
        Some(json!({
            "name": dataset.name(),
            "description": dataset.description(),
            "input_shape": form.as_ref().map(|form| form.input_shape.to_vec()),
            "class_names": dataset.class_names(),
            "train_samples": dataset.samples().map(|(train, _)| train),
            "test_samples": dataset.samples().map(|(_, test)| test),
            "needs_files": dataset.reads_dir(),
        }))
    };
    Value::Array(datasets.names().filter_map(entry).collect()).to_string()
}

/// These settings over the defaults, checked and complete.
#[pyfunction]
#[pyo3(signature = (config, settings))]
fn config_json(config: Option<&Bound<'_, PyAny>>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    let resolved = resolved(&layers(config, settings)?, &[]).map_err(refused)?;
    Registry::builtin().check(resolved.clone()).map_err(refused)?;
    serde_json::to_string(&resolved).map_err(|error| crate::errors::Kind::Config.error(error))
}

/// The JSON schema of configs.
#[pyfunction]
fn schema_json() -> String {
    json!(fedsi_fl::config::schema()).to_string()
}
