//! Why a folder cannot be a run's.

use std::path::PathBuf;

use fedsi_fl::ConfigError;
use thiserror::Error;

use crate::files::WriteError;

/// Why a folder cannot be a run's. Each message is one line; what to do about it is for the program to say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// There is a file of that name.
    #[error("{path} is not a folder", path = path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("{path} cannot be created ({source})", path = path.display())]
    CannotBeMade {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It cannot be looked into.
    #[error("{path} cannot be read ({source})", path = path.display())]
    CannotBeRead {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds something that no run writes.
    #[error("{path} holds `{name}`, which is not part of a run", path = path.display())]
    ForeignEntry {
        /// The folder.
        path: PathBuf,
        /// What it holds, as a path within it.
        name: String,
    },
    /// It holds a symbolic link where a run has a file or folder of its own.
    #[error("{path} is a symbolic link, and a run writes only into its own folder", path = path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// It holds files named like a run's that no run wrote.
    #[error("{path} holds files that fedsi did not write", path = path.display())]
    ForeignFiles {
        /// The folder.
        path: PathBuf,
    },
    /// It holds a run, and replacing it was not requested.
    #[error("{path} holds a run already", path = path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another run was quicker, on a file system without locks.
    #[error("{path} was just taken by another run", path = path.display())]
    JustTaken {
        /// The folder.
        path: PathBuf,
    },
    /// Another process works in it.
    #[error("{path} is in use by another fedsi; wait until it ends, or stop it", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It was renamed or removed while a run wrote into it.
    #[error("{path} was renamed or removed while the run wrote into it", path = path.display())]
    Moved {
        /// The name it had.
        path: PathBuf,
    },
    /// There is no such folder to continue a run in.
    #[error("{path} is not the folder of a run", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It holds no run to continue.
    #[error("{path} holds no run that fedsi wrote; a run's folder has its config.toml", path = path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// The config cannot be written as text.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl FolderError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Write(_) | Self::Moved { .. })
    }

    /// Whether the folder belongs to something else: another one may do.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(
            self,
            Self::ForeignEntry { .. }
                | Self::ForeignFiles { .. }
                | Self::Link { .. }
                | Self::HoldsARun { .. }
                | Self::JustTaken { .. }
                | Self::InUse { .. }
        )
    }
}
