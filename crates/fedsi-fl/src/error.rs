//! What can stop a simulation.

use thiserror::Error;

use crate::client::OtherTask;
use crate::client_store::StoreError;
use crate::config::ConfigError;
use crate::cost::MemoryError;
use crate::executor::ExecutorError;
use crate::server::ServerError;

/// Why a simulation cannot be built, or cannot go on. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The config does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// More memory is needed than there is.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A client has nothing to learn from.
    #[error("client {client} has no training sample left: {reason}")]
    NothingToLearn {
        /// The client.
        client: usize,
        /// Why.
        reason: String,
    },
    /// The server cannot go on.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The executor cannot work.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// Predictions of different tasks.
    #[error(transparent)]
    Predictions(#[from] OtherTask),
    /// No client has a usable personal model.
    #[error("no client has a usable personal model; client {client}: {reason}")]
    NoModels {
        /// One of the clients.
        client: usize,
        /// Why it has none.
        reason: String,
        /// Whether its training diverged.
        diverged: bool,
    },
    /// What clients keep between rounds cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A function that the caller passed in failed: its own error, to be downcast by the caller.
    #[error(transparent)]
    Callback(Box<dyn std::error::Error + Send + Sync>),
}

impl SimulationError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Memory(_) | Self::NothingToLearn { .. })
    }

    /// An error of the caller's own, returned from a function that was passed in.
    pub fn callback(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Callback(Box::new(error))
    }
}
