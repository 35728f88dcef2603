//! Why a run's models cannot be shown other inputs.

use std::path::PathBuf;

use fedsi_data::DataError;
use fedsi_metrics::MetricsError;
use thiserror::Error;

use crate::saved::SavedError;

/// Why nothing was measured. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OodError {
    /// No samples were asked for.
    #[error("0 samples a client and set: expected at least 1")]
    NoSamples,
    /// The run predicts values, which are neither right nor wrong.
    #[error("{path}: it predicts values, which are neither right nor wrong", path = path.display())]
    PredictsValues {
        /// The run's folder.
        path: PathBuf,
    },
    /// A dataset that was asked for is not known.
    #[error(transparent)]
    UnknownDataset(fedsi_data::UnknownDataset),
    /// A dataset that was asked for cannot be shown to these models.
    #[error("{name} cannot be shown to the run's models: {reason}")]
    OtherDataset {
        /// Its name.
        name: String,
        /// Why, and which can be.
        reason: String,
    },
    /// A dataset that was asked for cannot be opened.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A model cannot be read, or cannot predict.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// No client's model could be asked.
    #[error("{path}: no client has a usable model and test samples to show it", path = path.display())]
    NoClients {
        /// The run's folder.
        path: PathBuf,
    },
    /// A model's probabilities cannot be scored.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}
