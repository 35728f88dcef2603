//! Why a saved run cannot be used.

use std::path::PathBuf;

use fedsi_fl::ConfigError;
use fedsi_fl::client::ClientError;
use fedsi_metrics::MetricsError;
use fedsi_nn::NetworkError;
use thiserror::Error;

use crate::folder::FolderError;
use crate::model_file::ModelFileError;
use crate::tensor_file::TensorFileError;

/// Why a saved run, or one of its clients, cannot be used. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The folder holds no run.
    #[error("{path} is not a run: it has no config.toml", path = path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The run has not come to its end.
    #[error(
        "the run in {path} is not complete: it has no summary.json; wait for its end, or go on with it: fedsi resume {path}",
        path = path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// Its config is damaged.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A replacement of the run that was cut short cannot be ended.
    #[error(transparent)]
    Folder(#[from] FolderError),
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
    #[error("the run in {path} saved no personal models (output.personal_models = false)", path = path.display())]
    NoModels {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the run is missing or damaged.
    #[error("cannot use {path}: {source}; run it again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FileProblem,
    },
    /// A client's training diverged in the run.
    #[error("client {client} has no usable model: its posterior could not be computed in the run")]
    NoPosterior {
        /// The client.
        client: usize,
    },
    /// A model's predictions are NaN or infinite.
    #[error("client {client} has no usable model: it predicts values that are not finite")]
    NotFinite {
        /// The client.
        client: usize,
    },
    /// A model cannot predict.
    #[error("client {client} has no usable model: {source}")]
    Prediction {
        /// The client.
        client: usize,
        /// Why.
        source: ClientError,
    },
    /// A new client's posterior cannot be computed.
    #[error("no model could be fitted to the new client's data: {0}")]
    Fit(#[from] ClientError),
    /// There is nothing to find a threshold by.
    #[error("{} no test predictions in the run to find a threshold by", who_has(*client))]
    NoThreshold {
        /// The client; none: all of them together.
        client: Option<usize>,
    },
    /// There are too few test rows to calibrate sets or intervals by.
    #[error(
        "{needed} test rows are needed for sets or intervals of level {level}, and there are {}",
        rows_there_are(*own, *all)
    )]
    FewCalibrationRows {
        /// The level.
        level: f64,
        /// The client, where it is one of the run's, and how many it has.
        own: Option<(usize, usize)>,
        /// How many all clients have.
        all: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Of a new client's rows too few are left to calibrate sets or intervals by.
    #[error(
        "{needed} held-out rows are needed for sets or intervals of level {level}, and there are {found}"
    )]
    FewHeldOutRows {
        /// The level.
        level: f64,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Predictions that cannot be scored.
    #[error(transparent)]
    Scores(MetricsError),
    /// Values are neither right nor wrong.
    #[error("a regression has no error rate to bound")]
    NoRisk,
}

impl SavedError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        if let Self::Folder(error) = self {
            return error.is_bad_input();
        }
        !matches!(
            self,
            Self::NoPosterior { .. } | Self::NotFinite { .. } | Self::Prediction { .. } | Self::Fit(_)
        )
    }
}

fn rows_there_are(own: Option<(usize, usize)>, all: usize) -> String {
    match own {
        Some((client, own)) => format!("{own} of client {client}, {all} of all clients"),
        None => format!("{all} of all clients"),
    }
}

fn who_has(client: Option<usize>) -> String {
    client.map_or("there are".to_owned(), |client| format!("client {client} has"))
}

/// What is wrong with a file of a run. Each message is one line and completes "FILE: ".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// It is missing, or cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// It is not the JSON that was expected.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is not the tensor file that was expected.
    #[error(transparent)]
    Tensors(#[from] TensorFileError),
    /// It is no personal model of its network.
    #[error(transparent)]
    Model(#[from] ModelFileError),
    /// Its layers are no network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Its predictions cannot be scored.
    #[error(transparent)]
    Predictions(#[from] MetricsError),
    /// Its predictions and their clients differ in number.
    #[error("its `client` is not as long as the predictions")]
    PredictionClients,
    /// It is the model of another client.
    #[error("it is the model of client {found}, not of client {expected}")]
    OtherClient {
        /// Whose it is.
        found: usize,
        /// Whose it should be.
        expected: usize,
    },
    /// It is a file of another run.
    #[error("it is of another run")]
    OtherRun,
    /// It is not as the run wrote it.
    #[error("its bytes are not those that the run wrote: it was damaged or changed")]
    Digest,
    /// Its scalings are not those of its network.
    #[error("its scalings are not of its inputs and outputs")]
    Scalings,
    /// Its encoding of a table is not that of its network.
    #[error("its encoding of a table, or the ranges beside it, are not of its inputs")]
    Encoding,
    /// What the federation chose cannot be used.
    #[error("a prior variance or temperature in it is not a finite number above 0")]
    Calibration,
    /// Its class names are not those of its network.
    #[error("its class names are not as many as its outputs")]
    ClassNames,
    /// Its posterior is not of the kind that the run's method has.
    #[error("it has {found}, which is not what the run's method has")]
    OtherPosterior {
        /// What it has.
        found: &'static str,
    },
    /// Its predictions are not of the run's targets.
    #[error("its predictions are of {found} targets, expected {expected}")]
    Targets {
        /// How many it has.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Its config names a selection rule that does not exist.
    #[error(transparent)]
    Rule(#[from] fedsi_bayes::RuleNameError),
}
