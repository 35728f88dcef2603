//! What can stop a run.

use std::path::PathBuf;

use fedsi_data::DataChange;
use fedsi_fl::client::ClientError;
use fedsi_fl::{ConfigError, SimulationError};
use thiserror::Error;

use crate::checkpoint::CheckpointError;
use crate::federation_error::FederationError;
use crate::files::WriteError;
use crate::folder::FolderError;
use crate::origin::{OriginError, StatesError};

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
    /// The GPU that was asked for cannot be used.
    #[error("the GPU cannot be used: {0}")]
    Device(fedsi_cuda::CudaError),
    /// The server's state cannot be saved.
    #[error("the server's parameters: {0}")]
    Client(#[from] ClientError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The data is not that of the run's checkpoints.
    #[error("the data of the run in {path} changed since it began: {change}", path = path.display())]
    DataChanged {
        /// The run's folder.
        path: PathBuf,
        /// What changed.
        change: DataChange,
    },
    /// The data changed while it was opened.
    #[error("the data changed while it was read: {change}")]
    DataChangedWhileRead {
        /// What changed.
        change: DataChange,
    },
    /// What clients keep is another run's.
    #[error(transparent)]
    States(#[from] StatesError),
    /// `run.json` is not what a run writes.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// There are checkpoints, and none can be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The folder of a federation cannot be used, or a request not be answered.
    #[error(transparent)]
    Federation(#[from] FederationError),
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
            | Self::DataChanged { .. }
            | Self::DataChangedWhileRead { .. }
            | Self::Origin(_)
            | Self::States(StatesError::Owned { .. })
            | Self::Checkpoint(_)
            | Self::Device(_)
            | Self::Federation(_) => true,
            Self::Folder(error) => error.is_bad_input(),
            Self::Simulation(error) => error.is_bad_input(),
            Self::Client(_)
            | Self::Write(_)
            | Self::States(StatesError::Write(_))
            | Self::Interrupted { .. } => false,
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
