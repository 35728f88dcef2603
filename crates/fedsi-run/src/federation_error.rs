//! Why the folder of a federation cannot be used.

use std::path::PathBuf;

use fedsi_fl::site::RequestError;
use thiserror::Error;

/// Why a federation cannot begin, go on or answer. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FederationError {
    /// The folder has a federation, and was to get a new one.
    #[error("{path} holds a federation already; resume it, or choose another folder", path = path.display())]
    HoldsAFederation {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has other files.
    #[error(
        "{path} holds `{name}`, which is not part of a federation; choose a new or an empty folder",
        path = path.display()
    )]
    ForeignEntry {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        name: String,
    },
    /// There is nothing to go on with.
    #[error("{path} holds no federation to go on with", path = path.display())]
    NoFederation {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not what was written.
    #[error("{path} cannot be used: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Rounds were made, and no checkpoint is left.
    #[error(
        "{path} has no checkpoint left of a federation that was begun, and what its sites answered cannot be repeated; bring \
         the folder back from a copy, or begin a new federation in another folder",
        path = path.display()
    )]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
    },
    /// The newest checkpoint of a federation with privacy cannot be used.
    #[error(
        "{reason}; with privacy an older checkpoint is not used, because a round that is made again would have the same noise: \
         bring the file back from a copy, or begin a new federation in another folder"
    )]
    PrivateCheckpoint {
        /// What is wrong with it, with its path.
        reason: String,
    },
    /// What was given is not what the federation began with.
    #[error("{path} was begun with another {what}: {difference}", path = path.display())]
    Other {
        /// The folder.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// How.
        difference: String,
    },
    /// Names of sites that do not tell them apart.
    #[error("the sites' names: {0}")]
    Sites(String),
    /// An id that cannot be one, because it becomes the name of a folder.
    #[error("the federation's id {found:?}: expected 1 to 64 letters, digits, `-` or `_`")]
    Id {
        /// What was given.
        found: String,
    },
    /// A client that the federation does not have.
    #[error("client {client}: the federation has {clients} clients, counted from 0")]
    UnknownClient {
        /// The client.
        client: usize,
        /// How many there are.
        clients: usize,
    },
    /// All rounds are done.
    #[error("all {rounds} rounds are done")]
    Finished {
        /// How many there were.
        rounds: usize,
    },
    /// The server's config names files for a site to open.
    #[error("`{key}` is {found} in the server's config, expected {expected}")]
    ServerPath {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The site's own data does not fit.
    #[error("the site's data: {0}")]
    Data(String),
    /// A request that this site does not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
}
