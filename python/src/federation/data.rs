//! What each end knows of data: the server its form, a site its own samples.

use std::path::PathBuf;
use std::sync::Arc;

use fedsi_data::site::{
    AgreedData, Agreement, SITE_KEYS, SiteDescription, SiteFederation, site_overrides_allowed,
};
use fedsi_data::{DataError, Federation, Task};
use fedsi_fl::client::Client;
use fedsi_fl::config::Overrides;
use fedsi_fl::network::ClientNetwork;
use fedsi_fl::{Checked, ConfigError, Registry};
use fedsi_run::federation::{DataOutline, UNUSED_PATHS, expect_own_paths};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMapping};
use toml::Value;

use super::arrays::Arrays;
use super::read_config;
use crate::config::refused;
use crate::errors::Kind;
use crate::network::client_network;

/// A network that was given.
pub(super) fn given<'a, 'py>(object: Option<&'a Bound<'py, PyAny>>) -> Option<&'a Bound<'py, PyAny>> {
    object.filter(|object| !object.is_none())
}

fn bad_data(error: DataError) -> PyErr {
    Kind::Data.error(error)
}

fn read_agreement(bytes: &[u8]) -> PyResult<Agreement> {
    Agreement::from_bytes(bytes).map_err(|error| Kind::Message.error(error))
}

/// The form of the data, as a server knows it: what the sites agreed on or, of a dataset that each opens by its name, what is
/// known of that one.
pub(super) fn outline(
    config: &Checked,
    sites: &[String],
    agreement: Option<&[u8]>,
) -> PyResult<Arc<dyn Federation>> {
    if let Some(bytes) = agreement {
        let agreement = read_agreement(bytes)?;
        if agreement.sites() != sites {
            let (found, expected) = (agreement.sites(), sites);
            return Err(Kind::Federation
                .error(format!("agreement: it is of the sites {found:?}, expected {expected:?}")));
        }
        return Ok(Arc::new(DataOutline::of_agreement(&agreement)));
    }
    let found = DataOutline::of_config(config, sites).ok_or_else(|| {
        Kind::Data.error(format!(
            "agreement: None, and the form of the dataset `{}` is known only when the sites have described theirs: make an \
             agreement of their descriptions (`describe_site`, `agree`)",
            config.data.dataset.as_str()
        ))
    })?;
    Ok(Arc::new(found))
}

/// What a site's own code says of where its data is.
enum SiteSource {
    /// The config's dataset or files, with the site's own paths and no others.
    Config(Box<Checked>),
    /// Its own arrays.
    Arrays(Arrays),
}

impl SiteSource {
    fn read(config: &Checked, data: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let entries: Vec<(String, PathBuf)> = match given(data) {
            None => Vec::new(),
            Some(data) if data.cast::<PyMapping>().is_err() => {
                return Arrays::read(data).map(Self::Arrays);
            }
            Some(data) => data
                .call_method0("items")?
                .try_iter()?
                .map(|entry| entry?.extract())
                .collect::<PyResult<_>>()
                .map_err(|error| {
                    Kind::Config.error(format!(
                        "data: expected where the site's files are, by the names of settings: {error}"
                    ))
                })?,
        };
        if let Some((key, _)) = entries.iter().find(|(key, _)| !site_overrides_allowed(key)) {
            let allowed = SITE_KEYS.join(", ");
            return Err(Kind::Config.error(format!("data: a site does not set `{key}`; it sets {allowed}")));
        }
        // A server must not choose what a site reads.
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        expect_own_paths(config, &keys).map_err(|error| Kind::Config.error(format!("data: {error}")))?;
        let cleared = UNUSED_PATHS.into_iter().map(|key| (key.to_owned(), PathBuf::new()));
        let own = entries.into_iter().chain(cleared);
        let own = own.map(|(key, path)| (key, Value::String(path.display().to_string())));
        let own = Overrides::from_assignments("the site's own data", own.collect()).map_err(refused)?;
        let merged = [base(config)?, own];
        let registry = Registry::builtin();
        let config = registry.resolve(&merged).and_then(|config| registry.check(config)).map_err(refused)?;
        Ok(Self::Config(Box::new(config)))
    }
}

/// A config as a layer that others come over.
fn base(config: &Checked) -> PyResult<Overrides> {
    let text = fedsi_fl::config::commented(config).map_err(refused)?;
    Overrides::from_text("the federation's config", &text).map_err(refused)
}

/// A site's own data: what the config names, with the site's own paths, or arrays; as the sites agreed, where they did.
pub(super) fn site_data(
    py: Python<'_>,
    config: &Checked,
    agreement: Option<&[u8]>,
    client: usize,
    data: Option<&Bound<'_, PyAny>>,
) -> PyResult<Arc<dyn Federation>> {
    let source = SiteSource::read(config, data)?;
    let agreement = agreement.map(read_agreement).transpose()?;
    let open = || -> Result<Option<Arc<dyn Federation>>, DataError> {
        Ok(Some(match (agreement, source) {
            (None, SiteSource::Config(config)) => Arc::from(config.open_data()?),
            (Some(agreement), SiteSource::Arrays(arrays)) => {
                Arc::new(SiteFederation::of_arrays(&agreement, client, arrays.train, arrays.test)?)
            }
            (Some(agreement), SiteSource::Config(config)) => match agreement.data() {
                AgreedData::Named { .. } => {
                    Arc::new(SiteFederation::of_named(&agreement, client, config.open_data()?)?)
                }
                AgreedData::Arrays { .. } | AgreedData::Table { .. } => {
                    let (files, partition) = (&config.data.files, &config.partition);
                    Arc::new(SiteFederation::open_files(files, partition, config.seed, &agreement, client)?)
                }
            },
            (None, SiteSource::Arrays(_)) => return Ok(None),
        }))
    };
    py.detach(open).map_err(bad_data)?.ok_or_else(|| {
        Kind::Data.error("data: arrays need an agreement of all sites (`describe_site`, `agree`): without one the server does not \
                          know their shape")
    })
}

/// What all clients have in common: of fedsi's own layers, or of a network of Python.
pub(super) fn common_client(
    config: &Checked,
    data: &dyn Federation,
    network: Option<&Bound<'_, PyAny>>,
) -> PyResult<Arc<Client>> {
    let (task, scaling) = (data.task(), data.target_scaling().cloned());
    let client = match given(network) {
        None => Client::of_config(config, data.input_shape(), task, scaling).map_err(refused)?,
        Some(network) => {
            let network = python_network(network, config, data)?;
            Client::new(config, config.procedure(), network, task, scaling, config.rules())
                .map_err(|error| refused(ConfigError::Rule(error)))?
        }
    };
    Ok(Arc::new(client))
}

/// A network of Python, as the engine sees it, for data of this form.
fn python_network(
    object: &Bound<'_, PyAny>,
    config: &Checked,
    data: &dyn Federation,
) -> PyResult<Arc<dyn ClientNetwork>> {
    let network = client_network(object, config)?;
    let features: usize = data.input_shape().iter().product();
    let outputs = match data.task() {
        Task::Classification { classes } => classes,
        Task::Regression { outputs } => outputs,
    };
    let found = (network.input_size(), network.output_size());
    if found != (features, outputs) {
        return Err(Kind::Network.error(format!(
            "network: {} inputs and {} outputs, and the data has inputs of shape {:?} and needs {outputs} outputs",
            found.0,
            found.1,
            data.input_shape()
        )));
    }
    Ok(network)
}

/// What a site tells of its data before the first round, as bytes for the server: shapes, counts, summaries of columns, never
/// rows. `data` is `None`, a dict of where the site's files are (`data.dir`, `data.files.train`, `data.files.test`), or
/// `(x_train, y_train, x_test, y_test)`.
#[pyfunction]
#[pyo3(signature = (config_toml, client, name, data = None, network = None))]
pub(super) fn describe_site<'py>(
    py: Python<'py>,
    config_toml: &str,
    client: usize,
    name: &str,
    data: Option<&Bound<'py, PyAny>>,
    network: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let config = read_config(config_toml)?;
    let outputs = match given(network) {
        Some(network) => Some(client_network(network, &config)?.output_size()),
        None => None,
    };
    let described = match SiteSource::read(&config, data)? {
        SiteSource::Arrays(arrays) => {
            let (task, [train, test]) = (arrays.task(&config, outputs)?, arrays.rows());
            let names = &config.data.files.classes;
            let names = Some(names.as_slice())
                .filter(|_| matches!(task, Task::Classification { classes } if classes == names.len()));
            SiteDescription::of_arrays(name, &arrays.shape, task, names, train, test)
        }
        SiteSource::Config(config) => py.detach(|| match config.dataset().own_files(&config.data) {
            Some(files) => SiteDescription::of_files(files, &config.partition, config.seed, client, name),
            None => {
                let opened = config.open_data()?;
                SiteDescription::of_named(config.data.dataset.as_str(), opened.as_ref(), client, name)
            }
        }),
    };
    Ok(PyBytes::new(py, &described.map_err(bad_data)?.to_bytes()))
}

/// What a server makes of all sites' descriptions, in the order of clients, and sends to each of them.
#[pyfunction]
pub(super) fn agree<'py>(py: Python<'py>, descriptions: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyBytes>> {
    let read = |bytes: &PyBackedBytes| SiteDescription::from_bytes(bytes);
    let read: Result<Vec<SiteDescription>, DataError> = descriptions.iter().map(read).collect();
    let agreement = Agreement::of(&read.map_err(|error| Kind::Message.error(error))?);
    Ok(PyBytes::new(py, &agreement.map_err(|error| Kind::Federation.error(error))?.to_bytes()))
}

/// Whether the form of this config's data is known only when the sites have described theirs.
#[pyfunction]
pub(super) fn needs_description(config_toml: &str) -> PyResult<bool> {
    Ok(read_config(config_toml)?.dataset().form().is_none())
}
