//! A finished run, opened to predict: its settings, its clients' models and its server, without its data.
//!
//! ```no_run
//! use fedsi_run::saved::SavedRun;
//!
//! let run = SavedRun::open("runs/fedsi-digits-small-s1".as_ref())?;
//! let model = run.client(run.find("3")?)?;
//! let rows = fedsi_data::read_inputs("images.npy".as_ref(), &model.input_form(&run))?;
//! let predicted = model.predict(&rows.inputs)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abstain;
mod conformal;
mod error;
mod model;
mod server;

pub use crate::predictions_file::most_probable;
pub use abstain::Threshold;
pub use conformal::{ConformalCalibration, conformal_found};
pub use error::{FileProblem, SavedError};
pub use fedsi_metrics::{AbstentionGoal, Judgement};
pub use model::{Predicted, SavedModel, is_kept_model};
pub use server::SavedServer;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fedsi_data::hexadecimal;
use fedsi_fl::client::Predictions;
use fedsi_fl::config::hint;
use fedsi_fl::{Checked, Registry};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::folder::RunFolder;
use crate::origin::{Origin, run_id};
use crate::predictions_file::{read_prediction_clients, read_predictions};
use crate::predictions_table::{PREDICTIONS_TABLE, read_strangeness_column};
use crate::settings::read_config_with;

/// A finished run.
#[derive(Clone, Debug)]
pub struct SavedRun {
    path: PathBuf,
    config: Checked,
    clients: Vec<SavedClient>,
    /// What its files say of whose they are; not said by runs of 0.1.
    id: Option<String>,
    /// SHA-256 of files without a checksum of their own.
    digests: BTreeMap<String, String>,
}

/// A client of a finished run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SavedClient {
    /// Counted from 0.
    pub id: usize,
    /// Its own name, where the data has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Its test samples.
    #[serde(default)]
    samples: usize,
    /// Its score on them; none where its model could not be made, or predicted values that are not finite.
    #[serde(default)]
    nll: Option<f64>,
}

/// What of `summary.json` is needed.
#[derive(Deserialize)]
struct Outline {
    clients: Vec<SavedClient>,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

impl SavedRun {
    /// Opens a run's folder. Reads its config and its summary.
    ///
    /// # Errors
    /// A folder that holds no complete run.
    pub fn open(path: &Path) -> Result<Self, SavedError> {
        Self::open_with(path, &Registry::builtin())
    }

    /// The same for a run whose method, dataset or rule may be of this registry.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: &Path, registry: &Registry) -> Result<Self, SavedError> {
        let owned = || path.to_path_buf();
        RunFolder::recover(path)?;
        if !path.join("config.toml").is_file() {
            return Err(SavedError::NotARun { path: owned() });
        }
        let summary = path.join("summary.json");
        let text = match fs::read(&summary) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(SavedError::Unfinished { path: owned() });
            }
            read => read.map_err(damaged(&summary))?,
        };
        let Outline { clients, run: id, files: digests } =
            serde_json::from_slice(&text).map_err(damaged(&summary))?;
        let config = read_config_with(path, registry)?.check_with(registry)?;
        if let Some(id) = &id {
            let origin = Origin::read(path).map_err(|error| damaged(path)(std::io::Error::other(error)))?;
            let own = origin.map(|origin| run_id(&config, &origin)).transpose().map_err(damaged(path))?;
            if own.as_ref().is_some_and(|own| own != id) {
                return Err(damaged(&path.join("config.toml"))(FileProblem::OtherRun));
            }
        }
        Ok(Self { path: owned(), config, clients, id, digests })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's settings.
    #[must_use]
    pub const fn config(&self) -> &Checked {
        &self.config
    }

    /// Its clients, in the order of their ids.
    #[must_use]
    pub fn clients(&self) -> &[SavedClient] {
        &self.clients
    }

    /// The client of exactly this name or, where no client has it, of this id.
    ///
    /// # Errors
    /// No such client: says how many there are, or the nearest name.
    pub fn find(&self, wanted: &str) -> Result<usize, SavedError> {
        let by_name = self.clients.iter().find(|client| client.name.as_deref() == Some(wanted));
        let by_id = || self.clients.iter().find(|client| wanted.parse() == Ok(client.id));
        by_name.or_else(by_id).map(|client| client.id).ok_or_else(|| {
            let names = self.clients.iter().filter_map(|client| client.name.as_deref());
            let (wanted, hint) = (wanted.to_owned(), hint(wanted, names));
            SavedError::UnknownClient { wanted, hint, known: self.known_clients() }
        })
    }

    /// The clients there are, in words: how many, and the first of those that have names.
    #[must_use]
    pub fn known_clients(&self) -> String {
        const NAMED: usize = 5;
        let count = self.clients.len();
        let all = match count {
            1 => "one client, 0".to_owned(),
            _ => format!("{count} clients, 0 to {}", count.saturating_sub(1)),
        };
        let names: Vec<String> = self
            .clients
            .iter()
            .filter_map(|client| client.name.as_deref())
            .take(NAMED + 1)
            .map(fedsi_data::display_name)
            .collect();
        match names.len() {
            0 => all,
            few if few <= NAMED => format!("{all} ({})", names.join(", ")),
            _ => format!("{all} ({}, ...)", names[..NAMED].join(", ")),
        }
    }

    /// Reads a client's own model. Costs its file.
    ///
    /// # Errors
    /// A model that was not saved, is damaged, or had diverged.
    pub fn client(&self, id: usize) -> Result<SavedModel, SavedError> {
        if !self.config.output.personal_models {
            return Err(SavedError::NoModels { path: self.path.clone() });
        }
        let path = self.path.join("clients").join(format!("{id}.safetensors"));
        // A client whose posterior could not be computed has no model.
        let failed = |client: &SavedClient| client.id == id && client.samples > 0 && client.nll.is_none();
        if !path.exists() && self.clients.iter().any(failed) {
            return Err(SavedError::NoPosterior { client: id });
        }
        let found = SavedModel::read(&path, &self.config, self.id.as_deref())?;
        if found.model.client != id {
            let problem = FileProblem::OtherClient { found: found.model.client, expected: id };
            return Err(damaged(&path)(problem));
        }
        Ok(found)
    }

    /// A file of the run, whole, as the run wrote it.
    ///
    /// # Errors
    /// A file that is missing or was changed.
    fn read_digested(&self, name: &str) -> Result<Vec<u8>, SavedError> {
        let path = self.path.join(name);
        let bytes = read(&path)?;
        match verify_digest(&self.digests, name, &bytes) {
            true => Ok(bytes),
            false => Err(damaged(&path)(FileProblem::Digest)),
        }
    }

    /// The predictions of all test samples, and the client of each.
    ///
    /// # Errors
    /// A file that is missing, damaged or was changed.
    pub fn predictions(&self) -> Result<(Predictions, Vec<usize>), SavedError> {
        const NAME: &str = "predictions.safetensors";
        let path = self.path.join(NAME);
        let bytes = self.read_digested(NAME)?;
        let predictions = read_predictions(&bytes).map_err(damaged(&path))?;
        let owners = read_prediction_clients(&bytes).map_err(damaged(&path))?;
        if owners.len() != predictions.len() {
            return Err(damaged(&path)(FileProblem::PredictionClients));
        }
        Ok((predictions, owners))
    }

    /// How strange each test sample is to its client's model, in the order of [`Self::predictions`], to six digits; NaN where
    /// that is not known. None of runs that did not write it down.
    ///
    /// # Errors
    /// A file that is damaged or was changed.
    pub fn test_strangeness(&self) -> Result<Option<Vec<f64>>, SavedError> {
        let path = self.path.join(PREDICTIONS_TABLE);
        if !path.is_file() && !self.digests.contains_key(PREDICTIONS_TABLE) {
            return Ok(None);
        }
        let bytes = self.read_digested(PREDICTIONS_TABLE)?;
        let found = read_strangeness_column(&bytes);
        found.map(Some).map_err(|error| damaged(&path)(std::io::Error::other(error)))
    }

    /// Reads a model that [`SavedModel::keep`] wrote for a client that this run did not have.
    ///
    /// # Errors
    /// A file that is missing, damaged, or of another run.
    pub fn kept(&self, path: &Path) -> Result<SavedModel, SavedError> {
        SavedModel::read(path, &self.config, self.id.as_deref())
    }

    /// What tells the run's models from those of any other; runs of 0.1 have nothing.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Reads the server's state: what a new client starts from.
    ///
    /// # Errors
    /// A file that is missing or damaged.
    pub fn server(&self) -> Result<SavedServer, SavedError> {
        let path = self.path.join("checkpoint/server.safetensors");
        SavedServer::read(&path, &self.config, self.id.as_deref())
    }
}

/// Says which file a problem is in.
fn damaged<P: Into<FileProblem>>(path: &Path) -> impl FnOnce(P) -> SavedError + '_ {
    move |problem| SavedError::Damaged { path: path.to_path_buf(), source: problem.into() }
}

/// Whether a file's bytes have the digest that a summary has of it, where it has one.
#[must_use]
pub fn verify_digest(digests: &BTreeMap<String, String>, name: &str, bytes: &[u8]) -> bool {
    digests.get(name).is_none_or(|expected| *expected == hexadecimal(&Sha256::digest(bytes)))
}

/// A file of the run, whole.
fn read(path: &Path) -> Result<Vec<u8>, SavedError> {
    fs::read(path).map_err(damaged(path))
}
