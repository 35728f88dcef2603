//! What can stop a run.

use std::path::PathBuf;

use fedsi_fl::client::ClientError;
use fedsi_fl::simulation::SnapshotError;
use fedsi_fl::{ConfigError, SimulationError};
use thiserror::Error;

use crate::checkpoint::CheckpointError;
use crate::files::WriteError;
use crate::folder::FolderError;

/// Why a run did not start, or did not finish. Each message is one line; what to do about it is for the program to say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The config cannot run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] fedsi_data::DataError),
    /// The folder cannot be this run's.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The simulation cannot start, or cannot go on.
    #[error(transparent)]
    Simulation(SimulationError),
    /// The server's state cannot be saved.
    #[error("the server's parameters: {0}")]
    Client(#[from] ClientError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder's config.toml was changed since its checkpoint was written.
    #[error("{path} has a checkpoint of a run with other settings than its config.toml", path = path.display())]
    OtherSettings {
        /// The folder.
        path: PathBuf,
    },
    /// The checkpoint is not one of this simulation.
    #[error("{path} has a checkpoint that does not fit: {source}", path = path.display())]
    Snapshot {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: SnapshotError,
    },
    /// There are checkpoints, and none can be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// `metrics.jsonl` lost lines that were there when the checkpoint was written.
    #[error("{path} is shorter than its checkpoint says", path = path.display())]
    MetricsCut {
        /// The file.
        path: PathBuf,
    },
    /// Asked to stop.
    #[error("interrupted after round {round} of {rounds}")]
    Interrupted {
        /// Rounds completed.
        round: u64,
        /// Rounds planned.
        rounds: usize,
    },
}

impl RunError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Data(_)
            | Self::OtherSettings { .. }
            | Self::Snapshot { .. }
            | Self::Checkpoint(_) => true,
            Self::Folder(error) => error.is_bad_input(),
            Self::Simulation(error) => error.is_bad_input(),
            Self::Client(_) | Self::Write(_) | Self::MetricsCut { .. } | Self::Interrupted { .. } => false,
        }
    }
}

/// An error that this crate passed through the simulation comes out as it was.
impl From<SimulationError> for RunError {
    fn from(error: SimulationError) -> Self {
        let SimulationError::Callback(own) = error else { return Self::Simulation(error) };
        let own = match own.downcast::<Self>() {
            Ok(own) => return *own,
            Err(other) => other,
        };
        match own.downcast::<WriteError>() {
            Ok(own) => Self::Write(*own),
            Err(other) => Self::Simulation(SimulationError::Callback(other)),
        }
    }
}
