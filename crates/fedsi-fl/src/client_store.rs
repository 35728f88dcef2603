//! What clients keep between rounds: behind a trait, because with many clients it does not fit in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::parameters::{Kept, Parameters};

/// Where the part that each client keeps between rounds is stored. Nothing else of a client is remembered.
///
/// What a client learned in a round is staged as soon as it is known, and counts once the round's end confirms it:
/// until then, and where it is discarded, the client keeps what it had.
pub trait ClientStore: Debug + Send + Sync {
    /// What the client kept; none if it never took part.
    ///
    /// # Errors
    /// A state that is gone or damaged.
    fn get(&self, client: usize) -> Result<Option<Kept>, StoreError>;

    /// Holds what the client would keep after this round.
    ///
    /// # Errors
    /// A state that cannot be stored.
    fn stage(&self, client: usize, state: Kept, round: u64) -> Result<(), StoreError>;

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

    /// Whether what clients keep lies at their own sites, so that this store knows only which version.
    fn is_at_sites(&self) -> bool {
        false
    }

    /// The oldest version of what a client keeps at its own site that this store or a snapshot of it may still name; none
    /// where all must stay, or there are no sites.
    fn needed_since(&self, _client: usize) -> Option<u64> {
        None
    }

    /// The client's own site has lost what it kept: it is as if it had never taken part. A store that holds states itself
    /// has nothing to forget.
    fn forget(&mut self, _client: usize) {}
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
    /// The client keeps its state at its own site.
    #[error("client {client} keeps its state at its own site, and this store was to hold it")]
    AtSite {
        /// The client.
        client: usize,
    },
    /// The client sent a state that was to stay at its own site.
    #[error("client {client} sent what it is to keep at its own site")]
    NotAtSite {
        /// The client.
        client: usize,
    },
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
    fn get(&self, client: usize) -> Result<Option<Kept>, StoreError> {
        Ok(self.states.get(&client).cloned().map(Kept::Parameters))
    }

    fn stage(&self, client: usize, state: Kept, _: u64) -> Result<(), StoreError> {
        let Kept::Parameters(state) = state else { return Err(StoreError::AtSite { client }) };
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

/// Clients that keep their states at their own sites: which version of it each is to use. Memory: a few bytes for each
/// client that has taken part and version that a snapshot may name.
#[derive(Debug, Default)]
pub struct SiteVersions {
    /// The newest version of each client.
    newest: BTreeMap<usize, u64>,
    /// All versions that the newest state or a snapshot may name, ascending.
    named: BTreeMap<usize, Vec<u64>>,
    /// The round of the snapshot that it went back to: there may be older ones, which name other versions.
    restored: u64,
    /// Whether it is known which snapshots there are: none from before `restored`.
    is_bounded: bool,
}

impl SiteVersions {
    /// No client has taken part.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest version of each client that has taken part.
    #[must_use]
    pub const fn newest(&self) -> &BTreeMap<usize, u64> {
        &self.newest
    }
}

impl ClientStore for SiteVersions {
    fn get(&self, client: usize) -> Result<Option<Kept>, StoreError> {
        Ok(self.newest.get(&client).map(|&round| Kept::AtSite { round }))
    }

    /// The site stored it before it answered; nothing is to be done until it counts.
    fn stage(&self, client: usize, state: Kept, _: u64) -> Result<(), StoreError> {
        match state {
            Kept::AtSite { .. } => Ok(()),
            Kept::Parameters(_) => Err(StoreError::NotAtSite { client }),
        }
    }

    fn commit(&mut self, client: usize, round: u64) -> Result<(), StoreError> {
        self.newest.insert(client, round);
        let named = self.named.entry(client).or_default();
        // A version of a round that is made again after going back replaces the one before.
        named.retain(|&version| version < round);
        named.push(round);
        Ok(())
    }

    fn discard(&mut self, _: usize, _: u64) {}

    fn len(&self) -> usize {
        self.newest.len()
    }

    fn snapshot(&mut self) -> Result<ClientStates, StoreError> {
        Ok(ClientStates::Stored(self.newest.clone()))
    }

    fn restore(&mut self, states: ClientStates, round: u64) -> Result<(), StoreError> {
        let ClientStates::Stored(rounds) = states else { return Err(StoreError::NotStored) };
        self.named = rounds.iter().map(|(&client, &round)| (client, vec![round])).collect();
        self.newest = rounds;
        self.restored = round;
        self.is_bounded = false;
        Ok(())
    }

    fn discard_before(&mut self, oldest: u64) {
        for named in self.named.values_mut() {
            // The snapshot of `oldest` names the newest version up to it.
            let first = named.iter().rposition(|&version| version <= oldest).unwrap_or(0);
            named.drain(..first);
        }
        self.is_bounded = self.is_bounded || oldest >= self.restored;
    }

    fn is_at_sites(&self) -> bool {
        true
    }

    fn needed_since(&self, client: usize) -> Option<u64> {
        self.named.get(&client).and_then(|named| named.first()).copied().filter(|_| self.is_bounded)
    }

    fn forget(&mut self, client: usize) {
        self.newest.remove(&client);
        self.named.remove(&client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_keep_what_a_snapshot_may_name() {
        let mut store = SiteVersions::new();
        let kept = |store: &SiteVersions, client| store.get(client).unwrap();
        assert_eq!((kept(&store, 3), store.needed_since(3)), (None, None));
        for round in [2, 5, 9] {
            store.stage(3, Kept::AtSite { round }, round).unwrap();
            store.commit(3, round).unwrap();
        }
        assert_eq!(
            store.needed_since(3),
            None,
            "no checkpoint was written yet: one may be there from before"
        );
        store.discard_before(6);
        assert_eq!(store.needed_since(3), Some(5), "the checkpoint of round 6 names version 5");
        store.stage(3, Kept::AtSite { round: 11 }, 11).unwrap();
        store.discard(3, 11);
        assert_eq!(kept(&store, 3), Some(Kept::AtSite { round: 9 }), "what is discarded is not named");
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot, ClientStates::Stored([(3, 9)].into()));
        store.commit(3, 12).unwrap();
        store.restore(snapshot, 10).unwrap();
        assert_eq!((kept(&store, 3), store.needed_since(3)), (Some(Kept::AtSite { round: 9 }), None));
        store.discard_before(8);
        assert_eq!(store.needed_since(3), None, "the checkpoint of round 8 may name a version before 9");
        store.discard_before(10);
        assert_eq!(store.needed_since(3), Some(9));
        store.forget(3);
        assert_eq!((kept(&store, 3), store.needed_since(3), store.is_empty()), (None, None, true));
        let state = Kept::Parameters(Parameters::Point(vec![1.0]));
        assert!(matches!(store.stage(3, state, 13), Err(StoreError::NotAtSite { client: 3 })));
        assert!(matches!(
            MemoryStore::default().stage(3, Kept::AtSite { round: 1 }, 1),
            Err(StoreError::AtSite { client: 3 })
        ));
    }
}
