//! Settings of checkpoints.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::number;

/// How often a run's state is saved while it goes on, and where clients' state is. Changes no result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointConfig {
    /// A checkpoint after every so many rounds; 0: time alone decides.
    pub rounds: u64,
    /// A checkpoint after so many seconds, and never more often than costs a fiftieth of the run; 0: rounds alone
    /// decide.
    pub seconds: f64,
    /// Folder for what clients keep between rounds, for clients too many to hold in memory; empty: in memory.
    pub state_dir: PathBuf,
}

impl CheckpointConfig {
    /// Every thirty seconds, clients' state in memory.
    #[must_use]
    pub fn defaults() -> Self {
        Self { rounds: 0, seconds: 30.0, state_dir: PathBuf::new() }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let day = "a number from 0 to 86400";
        number("checkpoint.seconds", self.seconds, |x| (0.0..=86_400.0).contains(&x), day)
    }
}
