//! What a client keeps at its own site, by version.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::parameters::Parameters;

/// Where a site stores what its client keeps. The round in which a state was stored is its version; a server that was
/// stopped may go back to an older one.
pub trait SiteStates: Send + Sync {
    /// The versions that there are, ascending.
    ///
    /// # Errors
    /// A place that cannot be read.
    fn versions(&self) -> Result<Vec<u64>, SiteStateError>;

    /// The state of this version; none where there is none.
    ///
    /// # Errors
    /// A state that is damaged, or cannot be read now.
    fn get(&self, round: u64) -> Result<Option<Parameters>, SiteStateError>;

    /// Stores a state, in place of one of the same version. It is durable when this returns.
    ///
    /// # Errors
    /// A state that cannot be stored.
    fn put(&self, round: u64, state: &Parameters) -> Result<(), SiteStateError>;

    /// Removes versions before this one, as far as that can be done.
    fn remove_before(&self, round: u64);
}

/// Why a site cannot read or store what its client keeps, as its store says it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SiteStateError {
    /// What is stored is not what was: the version is lost.
    #[error(transparent)]
    Damaged(Box<dyn std::error::Error + Send + Sync>),
    /// The store failed, as by too many open files or a disk that is away: the version may be there when it is asked for again.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// States in memory: of a site that ends with its process.
#[derive(Debug, Default)]
pub struct MemoryStates(Mutex<BTreeMap<u64, Parameters>>);

impl MemoryStates {
    fn states(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Parameters>> {
        // Locked for moments only, by code that does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteStates for MemoryStates {
    fn versions(&self) -> Result<Vec<u64>, SiteStateError> {
        Ok(self.states().keys().copied().collect())
    }

    fn get(&self, round: u64) -> Result<Option<Parameters>, SiteStateError> {
        Ok(self.states().get(&round).cloned())
    }

    fn put(&self, round: u64, state: &Parameters) -> Result<(), SiteStateError> {
        self.states().insert(round, state.clone());
        Ok(())
    }

    fn remove_before(&self, round: u64) {
        self.states().retain(|&version, _| version >= round);
    }
}
