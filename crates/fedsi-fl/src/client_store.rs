//! What clients keep between rounds: behind a trait, because with many clients it does not fit in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::parameters::Parameters;

/// Where the part that each client keeps between rounds is stored. Nothing else of a client is remembered.
///
/// What a client learned in a round is staged as soon as it is known, and counts once the round's end confirms it:
/// until then, and where it is discarded, the client keeps what it had.
pub trait ClientStore: Debug + Send + Sync {
    /// What the client kept; none if it never took part.
    ///
    /// # Errors
    /// A state that is gone or damaged.
    fn get(&self, client: usize) -> Result<Option<Parameters>, StoreError>;

    /// Holds what the client would keep after this round.
    ///
    /// # Errors
    /// A state that cannot be stored.
    fn stage(&self, client: usize, state: Parameters, round: u64) -> Result<(), StoreError>;

    /// What was staged for the client in this round is what it keeps.
    ///
    /// # Errors
    /// A state that cannot be stored.
    fn commit(&mut self, client: usize, round: u64) -> Result<(), StoreError>;

    /// What was staged for the client in this round is forgotten.
    fn discard(&mut self, client: usize, round: u64);

    /// How many clients have kept something.
    fn len(&self) -> usize;

    /// Whether no client has kept anything.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a checkpoint must hold to come back to this point: the states, or where to find them. A state that is
    /// referred to is durable when this returns.
    ///
    /// # Errors
    /// A state that cannot be made durable.
    fn snapshot(&mut self) -> Result<ClientStates, StoreError>;

    /// Goes back to a snapshot that was taken after this round.
    ///
    /// # Errors
    /// A snapshot of another kind of store.
    fn restore(&mut self, states: ClientStates, round: u64) -> Result<(), StoreError>;

    /// Snapshots of rounds before `oldest` will not be restored again: what only they need may be removed.
    fn discard_before(&mut self, oldest: u64);
}

/// What a snapshot says of the parts that clients keep.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientStates {
    /// The states themselves, by client.
    Held(BTreeMap<usize, Parameters>),
    /// They are stored elsewhere: the round in which each client's newest one was stored.
    Stored(BTreeMap<usize, u64>),
}

impl ClientStates {
    /// How many clients have kept something.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Held(states) => states.len(),
            Self::Stored(rounds) => rounds.len(),
        }
    }

    /// Whether no client has kept anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why what clients keep cannot be read or stored. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A client's state is gone or damaged.
    #[error("cannot read the kept state of client {client}: {source}")]
    Lost {
        /// The client.
        client: usize,
        /// Why, as the store says it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A state cannot be stored.
    #[error(transparent)]
    Write(Box<dyn std::error::Error + Send + Sync>),
    /// The snapshot refers to stored states, and this store holds them in memory.
    #[error("it refers to clients' states that were stored outside of it, and this run keeps them in memory")]
    NotHeld,
    /// The snapshot holds the states, and this store keeps them elsewhere.
    #[error("it holds clients' states, and this run stores them outside of it")]
    NotStored,
}

/// Clients' states in memory, which grows with the clients that have taken part.
#[derive(Debug, Default)]
pub struct MemoryStore {
    states: BTreeMap<usize, Parameters>,
    staged: Mutex<BTreeMap<usize, Parameters>>,
}

impl MemoryStore {
    fn staged(&mut self) -> &mut BTreeMap<usize, Parameters> {
        self.staged.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientStore for MemoryStore {
    fn get(&self, client: usize) -> Result<Option<Parameters>, StoreError> {
        Ok(self.states.get(&client).cloned())
    }

    fn stage(&self, client: usize, state: Parameters, _: u64) -> Result<(), StoreError> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner).insert(client, state);
        Ok(())
    }

    fn commit(&mut self, client: usize, _: u64) -> Result<(), StoreError> {
        if let Some(state) = self.staged().remove(&client) {
            self.states.insert(client, state);
        }
        Ok(())
    }

    fn discard(&mut self, client: usize, _: u64) {
        self.staged().remove(&client);
    }

    fn len(&self) -> usize {
        self.states.len()
    }

    fn snapshot(&mut self) -> Result<ClientStates, StoreError> {
        Ok(ClientStates::Held(self.states.clone()))
    }

    fn restore(&mut self, states: ClientStates, _: u64) -> Result<(), StoreError> {
        match states {
            ClientStates::Held(states) => {
                self.staged().clear();
                self.states = states;
                Ok(())
            }
            ClientStates::Stored(_) => Err(StoreError::NotHeld),
        }
    }

    fn discard_before(&mut self, _: u64) {}
}
