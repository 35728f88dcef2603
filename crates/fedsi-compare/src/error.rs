//! What can stop a comparison.

use std::path::{Path, PathBuf};

use fedsi_fl::{ConfigError, RunError};
use thiserror::Error;

/// Why there is no comparison. Each message is one line. A run that fails is no such error: it is a
/// [`Failure`](crate::comparison::Failure) in the comparison.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Settings or data that no run could have, or a file that cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A method that was asked for twice.
    #[error("--methods: `{name}` is there twice; name each method once")]
    Duplicate {
        /// The method.
        name: String,
    },
    /// No method, or no seed.
    #[error("{what}")]
    Nothing {
        /// What is missing, and what to do.
        what: String,
    },
    /// The folder holds something else.
    #[error("{path} {found}; choose another folder with --out", path = path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// Another process is at work in the folder.
    #[error(
        "{path} is in use by another `fedsi compare`; wait for it, or choose another folder with --out",
        path = path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A finished run is not the one that is asked for.
    #[error(
        "{path} holds a finished run with other settings: {difference}; choose another folder with --out, or --force \
         to replace runs that differ",
        path = path.display()
    )]
    Differs {
        /// The run's folder.
        path: PathBuf,
        /// The first key that differs, with both values.
        difference: String,
    },
    /// Asked to stop.
    #[error("stopped as asked; what is done is in {path}, and the same command goes on", path = path.display())]
    Interrupted {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is not what fedsi writes there.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl From<ConfigError> for CompareError {
    fn from(error: ConfigError) -> Self {
        Self::Run(error.into())
    }
}

impl CompareError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Run(error) => error.is_bad_input(),
            Self::Duplicate { .. }
            | Self::Nothing { .. }
            | Self::Foreign { .. }
            | Self::InUse { .. }
            | Self::Differs { .. } => true,
            Self::Content { .. } | Self::Interrupted { .. } => false,
        }
    }

    pub(crate) fn content(path: &Path, reason: &impl ToString) -> Self {
        Self::Content { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Run(RunError::Write { path: path.to_owned(), source })
    }
}
