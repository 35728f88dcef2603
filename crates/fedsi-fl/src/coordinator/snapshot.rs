//! A federation between two rounds: saved, and continued from.

use thiserror::Error;

use super::Coordinator;
use crate::client_store::{ClientStates, StoreError};
use crate::error::SimulationError;
use crate::parameters::{KindError, Parameters};
use crate::server::{ServerError, ServerState};

/// Everything that a federation is between two rounds, besides its settings and its data: random draws are keyed, and
/// optimisers start afresh in every round.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What the server knows.
    pub server: ServerState,
    /// What clients keep.
    pub clients: ClientStates,
}

/// Why a federation cannot continue from a snapshot. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// More rounds than the run has.
    #[error("it is of round {round}, and the run has {rounds}")]
    Round {
        /// The snapshot's.
        round: u64,
        /// Rounds that are planned.
        rounds: usize,
    },
    /// A client that the run does not have.
    #[error("it has a client {client}, and the run has {clients} clients")]
    UnknownClient {
        /// The client.
        client: usize,
        /// How many there are.
        clients: usize,
    },
    /// What a client keeps is not what clients of this run keep.
    #[error("what client {client} keeps: {source}")]
    Kept {
        /// The client.
        client: usize,
        /// How it differs.
        source: KindError,
    },
    /// What the server holds is not what this run's server holds.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// What clients keep is stored in another way.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Coordinator {
    /// The federation as it is. Cost: a copy of what clients keep in memory.
    ///
    /// # Errors
    /// Clients' state that cannot be made durable.
    pub fn snapshot(&mut self) -> Result<Snapshot, SimulationError> {
        Ok(Snapshot { server: self.server.state().clone(), clients: self.store.snapshot()? })
    }

    /// Continues from a snapshot of the same run: every later round gives the bits that it would have given.
    ///
    /// # Errors
    /// A snapshot of another run.
    pub fn restore(&mut self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let Snapshot { server, clients } = snapshot;
        let (round, rounds) = (server.round, self.config.rounds);
        if round > rounds as u64 {
            return Err(SnapshotError::Round { round, rounds });
        }
        self.check_clients(&clients)?;
        self.server.restore(server)?;
        self.store.restore(clients, round)?;
        Ok(())
    }

    fn check_clients(&self, states: &ClientStates) -> Result<(), SnapshotError> {
        let clients = self.clients;
        let unknown = |&&client: &&usize| client >= clients;
        let last = match states {
            ClientStates::Held(states) => states.keys().next_back(),
            ClientStates::Stored(rounds) => rounds.keys().next_back(),
        };
        if let Some(&client) = last.filter(unknown) {
            return Err(SnapshotError::UnknownClient { client, clients });
        }
        let ClientStates::Held(states) = states else { return Ok(()) };
        let range = self.client.procedure().kept.range(self.client.network().layout());
        let mut whole: Parameters = self.client.initial()[0].clone();
        for (&client, state) in states {
            whole.put(range.clone(), state).map_err(|source| SnapshotError::Kept { client, source })?;
        }
        Ok(())
    }

    /// Snapshots of rounds before `oldest` will not be restored again: what only they need may be removed.
    pub fn discard_before(&mut self, oldest: u64) {
        self.store.discard_before(oldest);
    }
}
