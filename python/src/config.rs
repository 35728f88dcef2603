//! Configs from Python: the same layers, defaults and checks as on the command line.

use std::path::PathBuf;

use fedsi_fl::config::Overrides;
use fedsi_fl::{Checked, ConfigError, Registry};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::Value;

use crate::errors::Kind;

/// The layers of settings that Python code gives, the strongest last: `config` is none, a dict (nested, or with dotted keys),
/// or the path of a TOML file; `settings` are keyword arguments in which `__` stands for the dot of a key.
pub(crate) fn layers(
    config: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Overrides>> {
    let mut layers = Vec::new();
    if let Some(config) = config.filter(|config| !config.is_none()) {
        layers.push(match config.cast::<PyDict>() {
            Ok(dict) => of_dict("config", dict, false)?,
            Err(_) => Overrides::from_file(&path_of(config)?).map_err(refused)?,
        });
    }
    if let Some(settings) = settings.filter(|settings| !settings.is_empty()) {
        layers.push(of_dict("the keyword arguments", settings, true)?);
    }
    Ok(layers)
}

/// These layers over the defaults of the method and dataset they name, checked.
pub(crate) fn checked(layers: &[Overrides]) -> PyResult<Checked> {
    let registry = Registry::builtin();
    registry.resolve(layers).and_then(|config| registry.check(config)).map_err(refused)
}

/// A config that is refused.
pub(crate) fn refused(error: ConfigError) -> PyErr {
    Kind::Config.error(error)
}

fn path_of(config: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    config.extract::<PathBuf>().map_err(|_| {
        let found =
            config.get_type().name().map_or_else(|_| "another type".to_owned(), |name| name.to_string());
        Kind::Config.error(format!("config: expected a dict, or the path of a TOML file; found {found}"))
    })
}

fn of_dict(origin: &str, dict: &Bound<'_, PyDict>, keywords: bool) -> PyResult<Overrides> {
    let mut assignments = Vec::with_capacity(dict.len());
    flatten("", dict, keywords, &mut assignments)?;
    Overrides::from_assignments(origin, assignments).map_err(refused)
}

/// Nested dicts as dotted keys. What is `None` is not set.
fn flatten(
    prefix: &str,
    dict: &Bound<'_, PyDict>,
    keywords: bool,
    assignments: &mut Vec<(String, Value)>,
) -> PyResult<()> {
    for (key, value) in dict {
        let key: String = key
            .extract()
            .map_err(|_| Kind::Config.error(format!("{prefix}{key}: expected a setting's name as text")))?;
        let key = if keywords { key.replace("__", ".") } else { key };
        let key = format!("{prefix}{key}");
        match value.cast::<PyDict>() {
            _ if value.is_none() => {}
            Ok(section) => flatten(&format!("{key}."), section, keywords, assignments)?,
            Err(_) => {
                let value = toml_value(&key, &value)?;
                assignments.push((key, value));
            }
        }
    }
    Ok(())
}

fn toml_value(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return value
            .extract()
            .map(Value::Integer)
            .map_err(|error| Kind::Config.error(format!("{key}: {error}")));
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Value::Float);
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(Value::String);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| toml_value(key, &item?));
        return items.collect::<PyResult<_>>().map(Value::Array);
    }
    // Within lists: the layers of a network.
    if let Ok(section) = value.cast::<PyDict>() {
        let entry = |(name, item): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let name: String = name.extract().map_err(|_| {
                Kind::Config.error(format!("{key}: expected a setting's name as text, found {name}"))
            })?;
            let item = toml_value(&format!("{key}.{name}"), &item)?;
            Ok((name, item))
        };
        return section.iter().map(entry).collect::<PyResult<_>>().map(Value::Table);
    }
    // Numbers of numpy, and paths.
    if let Ok(number) = value.call_method0("item") {
        return toml_value(key, &number);
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(Value::String(path.display().to_string()));
    }
    let found = value.get_type().name()?.to_string();
    Err(Kind::Config
        .error(format!("{key}: expected a number, text, true or false, or a list of them; found {found}")))
}
