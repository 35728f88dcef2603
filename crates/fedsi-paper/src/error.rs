//! What can stop an experiment.

use std::path::{Path, PathBuf};

use fedsi_compare::CompareError;
use fedsi_report::ReportError;
use fedsi_run::{FolderError, RunError, WriteError};
use thiserror::Error;

/// Why there are no results. A run that fails is no such error: it is named beside the results of the others.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PaperError {
    /// Settings, data, or runs that cannot be made.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A figure that cannot be drawn.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A name that is not among those of this experiment.
    #[error("there is no {what} `{name}` in {experiment}{hint}; known: {known}")]
    Unknown {
        /// A setting or a method.
        what: &'static str,
        /// The name given.
        name: String,
        /// The experiment.
        experiment: &'static str,
        /// The nearest known name.
        hint: String,
        /// All names.
        known: String,
    },
    /// A file that is not what fedsi writes there.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// Results of another experiment.
    #[error("{path} holds results of {found}, not of {expected}", path = path.display())]
    OtherExperiment {
        /// The file.
        path: PathBuf,
        /// Whose results they are.
        found: String,
        /// Whose are wanted.
        expected: String,
    },
    /// The folder for the results holds something else.
    #[error("{path} holds `{name}` and no results of fedsi paper", path = path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        name: String,
    },
}

impl PaperError {
    /// Whether what was given is at fault (exit code 2), not what happened while running (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Compare(error) => error.is_bad_input(),
            Self::Report(_) => false,
            Self::Unknown { .. }
            | Self::Content { .. }
            | Self::OtherExperiment { .. }
            | Self::Foreign { .. } => true,
        }
    }

    pub(crate) fn content(path: &Path, reason: &impl ToString) -> Self {
        Self::Content { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl From<RunError> for PaperError {
    fn from(error: RunError) -> Self {
        Self::Compare(error.into())
    }
}

impl From<FolderError> for PaperError {
    fn from(error: FolderError) -> Self {
        Self::Compare(error.into())
    }
}

impl From<WriteError> for PaperError {
    fn from(error: WriteError) -> Self {
        Self::Compare(error.into())
    }
}

impl From<fedsi_fl::ConfigError> for PaperError {
    fn from(error: fedsi_fl::ConfigError) -> Self {
        Self::Compare(error.into())
    }
}
