//! Why a saved run cannot be used.

use std::path::PathBuf;

use thiserror::Error;

use crate::config::ConfigError;
use crate::infer::InferenceError;

/// Why a saved run, or one of its clients, cannot be used. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The folder holds no run.
    #[error("{path} is no run: it has no config.toml; give the folder that `fedsi run` wrote", path = path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The run has not come to its end.
    #[error(
        "the run in {path} is not complete: it has no summary.json; wait for its end, or run it again",
        path = path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// Its config is damaged.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The run has no such client.
    #[error("unknown client `{wanted}`{hint}; the run has {known}")]
    UnknownClient {
        /// What was asked for.
        wanted: String,
        /// The nearest name.
        hint: String,
        /// The clients there are.
        known: String,
    },
    /// Personal models were not saved.
    #[error(
        "the run in {path} saved no personal models (output.personal_models = false); run it again with true, or fit a \
         model to the client's data with --fit",
        path = path.display()
    )]
    NoModels {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the run is missing or damaged.
    #[error("cannot use {path}: {reason}; run it again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A client diverged, in the run or now.
    #[error("client {client} has no usable model: {reason}")]
    Diverged {
        /// The client.
        client: usize,
        /// Why.
        reason: String,
    },
    /// A new client's posterior cannot be computed.
    #[error("no model could be fitted to the new client's data: {0}")]
    Fit(#[from] InferenceError),
    /// There is nothing to find a threshold by.
    #[error("{whose} no test predictions in the run to find a threshold by; leave --coverage and --risk out")]
    NoThreshold {
        /// Who has none.
        whose: String,
    },
    /// Values are neither right nor wrong.
    #[error("a regression has no error rate to bound with --risk; choose a share to answer with --coverage")]
    NoRisk,
}

impl SavedError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Diverged { .. } | Self::Fit(_))
    }
}
