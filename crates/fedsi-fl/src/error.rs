//! What can stop a run.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::ConfigError;

/// Why a run did not start, or did not finish. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The config cannot run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] fedsi_data::DataError),
    /// The output folder holds something already.
    #[error("{path} {found}; {remedy}", path = path.display())]
    OutputTaken {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The output folder cannot be one.
    #[error("{path} {reason}; choose another folder with --out", path = path.display())]
    OutputUnusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A client has nothing to learn from.
    #[error("client {client} has no training sample left: {reason}")]
    NothingToLearn {
        /// The client.
        client: usize,
        /// Why.
        reason: String,
    },
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
        /// Clients drawn.
        participants: usize,
        /// Updates needed.
        needed: usize,
        /// Who was left out and why.
        reasons: String,
    },
    /// No client's personal model predicts numbers.
    #[error(
        "every client's personal model predicts values that are not finite; smaller learning rates may help"
    )]
    Diverged,
    /// A file cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What a client keeps on disk cannot be read.
    #[error("what client {client} keeps is lost: {path}: {reason}", path = path.display())]
    StateLost {
        /// The client.
        client: usize,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A folder that no run can go on in.
    #[error("{path} {reason}", path = path.display())]
    NotResumable {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Asked to stop.
    #[error("stopped as asked, after round {round} of {rounds}")]
    Interrupted {
        /// Rounds completed.
        round: u64,
        /// Rounds planned.
        rounds: usize,
    },
    /// Threads cannot be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// Why.
        reason: String,
    },
}

impl RunError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Data(_)
                | Self::OutputTaken { .. }
                | Self::OutputUnusable { .. }
                | Self::NothingToLearn { .. }
                | Self::NotResumable { .. }
        )
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}
