//! Why the server cannot go on.

use fedsi_random::NoEntropy;
use thiserror::Error;

use crate::methods::Unprotected;
use crate::parameters::KindError;

/// Why the server cannot go on. Each message is one line.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Too few participants returned something usable.
    #[error(
        "round {round}: {usable} of {participants} participants returned a usable update, fewer than the quorum of \
         {needed}; left out: {reasons}"
    )]
    Quorum {
        /// The round.
        round: u64,
        /// Usable updates.
        usable: usize,
        /// Clients asked.
        participants: usize,
        /// Updates needed.
        needed: usize,
        /// Who was left out and why.
        reasons: String,
    },
    /// A state whose shared part is of another kind or size.
    #[error("its shared part: {0}")]
    OtherShared(#[from] KindError),
    /// A state of another number of modes.
    #[error("it has {found} modes, and the run has {expected}")]
    OtherModes {
        /// The run's.
        expected: usize,
        /// The state's.
        found: usize,
    },
    /// A state without the key that a run with privacy has, or with one where there is none.
    #[error("{}", if *needed { "it has no privacy key, and the run needs one" } else { "it has a privacy key, and the run has no privacy" })]
    OtherKey {
        /// Whether the run has a key.
        needed: bool,
    },
    /// Settings whose novel clients are not there, or not in order.
    #[error("novel clients {novel:?}: expected ids below {clients}, ascending")]
    NovelClients {
        /// Their ids.
        novel: Vec<usize>,
        /// How many clients there are.
        clients: usize,
    },
    /// There is no key for privacy.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// A procedure under which something becomes known without noise, where there is privacy.
    #[error("privacy cannot be had: {0}")]
    Unprotected(Unprotected),
}
