//! A posterior as a file: safetensors, with a checksum of everything.
//!
//! | tensor | what |
//! |---|---|
//! | `0.weight`, `fc.bias`, ... (F64) | the parameters that it was fitted to, under PyTorch's names |
//! | `posterior.*` | as in model files: `selected`, `prior_variance`, `variance`, `live`, `factor` |
//!
//! The metadata has the form of the covariance, the likelihood, the evidence and the settings of `fedsi.Laplace`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedsi_bayes::{Laplace, Likelihood, LinearisedNetwork, Predictive};
use fedsi_fl::wire::{
    NamedTensor, PosteriorHeader, TensorFile, TensorFileError, checked_tensor_bytes, laplace_tensors,
    read_laplace,
};
use fedsi_nn::Tensor;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::Kind;

const FORMAT: &str = "fedsi-laplace-1";

#[derive(Serialize, Deserialize)]
struct Entry {
    format: String,
    /// Of each output, for a regression.
    noise: Option<Vec<f64>>,
    log_likelihood: Option<f64>,
    log_marginal_likelihood: Option<f64>,
    settings: serde_json::Value,
    #[serde(flatten)]
    posterior: PosteriorHeader,
}

fn failed(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> PyErr + '_ {
    move |reason| Kind::Folder.error(format!("{}: {reason}", path.display()))
}

/// Writes a posterior.
pub(super) fn write(
    path: &Path,
    fit: &Laplace,
    [log_likelihood, log_marginal_likelihood]: [Option<f64>; 2],
    settings: serde_json::Value,
    names: &[String],
) -> PyResult<()> {
    let bad = failed(path);
    let (mut tensors, posterior) = laplace_tensors(fit, Predictive::Probit);
    for (tensor, name) in named(path, fit.network(), names)? {
        let values = &fit.parameters()[tensor.range.clone()];
        tensors.push(NamedTensor::f64(name, tensor.shape.clone(), values));
    }
    let noise = match fit.likelihood() {
        Likelihood::Categorical => None,
        Likelihood::Gaussian { noise } => Some(noise.clone()),
    };
    let format = FORMAT.to_owned();
    let entry = Entry { format, noise, log_likelihood, log_marginal_likelihood, settings, posterior };
    let entry = serde_json::to_value(&entry).map_err(|error| bad(&error))?;
    let bytes = checked_tensor_bytes(&tensors, &entry).map_err(|error| bad(&error))?;
    fedsi_run::write_whole(path, &bytes).map_err(|error| Kind::Folder.error(error))
}

/// The network's tensors by the names that the user knows them by.
fn named<'a>(
    path: &Path,
    network: &'a Arc<dyn LinearisedNetwork>,
    names: &'a [String],
) -> PyResult<Vec<(&'a Tensor, &'a str)>> {
    let tensors = network.layout().tensors();
    if tensors.len() != names.len() {
        let (expected, found) = (tensors.len(), names.len());
        return Err(failed(path)(&format!("found {found} names of tensors, expected {expected}")));
    }
    Ok(tensors.iter().zip(names.iter().map(String::as_str)).collect())
}

/// A file's bytes.
pub(super) struct Stored {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Stored {
    pub(super) fn read(path: &Path) -> PyResult<Self> {
        let bytes = std::fs::read(path).map_err(|error| failed(path)(&format!("cannot be read: {error}")))?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    fn open(&self) -> PyResult<(TensorFile<'_>, Entry)> {
        let open = || -> Result<_, TensorFileError> {
            let file = TensorFile::parse(&self.bytes)?;
            let entry: Entry = file.entry()?;
            if entry.format != FORMAT {
                return Err(TensorFileError::OtherFormat { found: entry.format, expected: FORMAT });
            }
            file.verify()?;
            Ok((file, entry))
        };
        open().map_err(|error| failed(&self.path)(&format!("no posterior of fedsi.Laplace: {error}")))
    }

    /// What `fedsi.Laplace` keeps of its settings.
    pub(super) fn settings(&self) -> PyResult<serde_json::Value> {
        Ok(self.open()?.1.settings)
    }

    /// The posterior over this network, whose parameters must be those it was fitted to; log likelihood and evidence.
    pub(super) fn posterior(
        &self,
        network: Arc<dyn LinearisedNetwork>,
        parameters: Vec<f64>,
        names: &[String],
    ) -> PyResult<(Laplace, [Option<f64>; 2])> {
        let bad = failed(&self.path);
        let (file, entry) = self.open()?;
        let tensors = named(&self.path, &network, names)?;
        for (tensor, name) in &tensors {
            let shape = file.shape(name).map_err(|error| {
                bad(&format!("{error}, which the model has: it was saved for another network"))
            })?;
            if shape != tensor.shape {
                return Err(bad(&format!(
                    "its `{name}` has the shape {shape:?}, the model's {:?}: it was saved for another network",
                    tensor.shape
                )));
            }
        }
        for (tensor, name) in &tensors {
            let saved = file.f64(name).map_err(|error| bad(&error))?;
            let own = parameters.get(tensor.range.clone()).unwrap_or_default();
            if saved.len() != own.len() || saved.iter().zip(own).any(|(a, b)| a.to_bits() != b.to_bits()) {
                return Err(bad(&format!(
                    "the model's `{name}` has other values than when the posterior was fitted: load the trained parameters \
                     into the model first"
                )));
            }
        }
        let likelihood = entry.noise.map_or(Likelihood::Categorical, |noise| Likelihood::Gaussian { noise });
        let read = read_laplace(&file, entry.posterior, network, parameters, likelihood);
        let (fit, _) = read.map_err(|error| bad(&error))?;
        Ok((fit, [entry.log_likelihood, entry.log_marginal_likelihood]))
    }
}
