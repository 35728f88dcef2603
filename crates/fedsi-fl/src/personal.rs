//! What clients keep between rounds.

use std::collections::BTreeMap;

use crate::state::State;

/// The personal part of every client that has one: nothing else of a client is remembered. Memory follows the
/// clients that have taken part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersonalStore {
    parts: BTreeMap<usize, State>,
}

impl PersonalStore {
    /// What the client kept, if it has taken part.
    #[must_use]
    pub fn get(&self, client: usize) -> Option<&State> {
        self.parts.get(&client)
    }

    /// Replaces what the client kept.
    pub fn put(&mut self, client: usize, part: State) {
        self.parts.insert(client, part);
    }

    /// Clients that have kept something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether no client has kept anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}
