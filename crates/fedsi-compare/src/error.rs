//! What can stop a comparison.

use std::path::{Path, PathBuf};

use fedsi_data::DataChange;
use fedsi_fl::{ConfigError, SimulationError};
use fedsi_run::{FolderError, RunError, WriteError};
use thiserror::Error;

/// Why there is no comparison. Each message is one line; what to do about it is for the program to say. A run that
/// fails is no such error: it is a [`Failure`](crate::comparison::Failure) in the comparison.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Settings or data that no run could have, or a file that cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A method that was asked for twice.
    #[error("the method `{name}` is listed twice")]
    Duplicate {
        /// The method.
        name: String,
    },
    /// No method is named.
    #[error("there is no method to compare")]
    NoMethods,
    /// A method that others are to be tested against, and that is not compared.
    #[error("the reference `{name}` is not among the methods compared: {methods}")]
    Reference {
        /// The method.
        name: String,
        /// Those that are compared.
        methods: String,
    },
    /// Another tool's predictions that cannot be compared.
    #[error("`{given}`: {reason}")]
    With {
        /// `NAME=FILE`, as it was given.
        given: String,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A file of another tool's predictions that cannot be used.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// A column that no table has.
    #[error("unknown column `{name}`{hint}; known: {known}")]
    Column {
        /// The name given.
        name: String,
        /// The nearest known name.
        hint: String,
        /// All names.
        known: String,
    },
    /// No seed is asked for.
    #[error("there is no seed to compare on")]
    NoSeeds,
    /// More seeds than anybody can run.
    #[error("{count} seeds: expected at most {most}, each of which is a run of every method")]
    TooManySeeds {
        /// How many were asked for.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// More seeds than there are.
    #[error("{count} seeds from seed {first} on: seeds end at 2^63 - 1")]
    SeedRange {
        /// The first seed.
        first: u64,
        /// How many were asked for.
        count: usize,
    },
    /// The folder holds something else.
    #[error("{path} holds `{name}` and no comparison", path = path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        name: String,
    },
    /// Another process is at work in the folder.
    #[error("{path} is in use by another process that makes runs", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A finished run is not the one that is asked for.
    #[error("{path} holds a finished run with other settings: {difference}", path = path.display())]
    Differs {
        /// The run's folder.
        path: PathBuf,
        /// The first key that differs, with both values.
        difference: String,
    },
    /// Runs that were made on other data than the rest.
    #[error(
        "{one} and {other} were not made on the same data: {change}",
        one = one.display(),
        other = other.display()
    )]
    OtherData {
        /// A run's folder.
        one: PathBuf,
        /// Another's.
        other: PathBuf,
        /// What differs.
        change: DataChange,
    },
    /// An unfinished run is not the one that is asked for.
    #[error("{path} holds an unfinished run with other settings: {difference}", path = path.display())]
    UnfinishedDiffers {
        /// The run's folder.
        path: PathBuf,
        /// The first key that differs, with both values.
        difference: String,
    },
    /// A summary is there and cannot be read, so that it is unknown whether its run is finished.
    #[error("{path} cannot be read ({reason})", path = path.display())]
    UnreadableSummary {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Asked to stop.
    #[error("stopped as asked; what is done is saved in {path}", path = path.display())]
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

impl From<SimulationError> for CompareError {
    fn from(error: SimulationError) -> Self {
        Self::Run(error.into())
    }
}

impl From<FolderError> for CompareError {
    fn from(error: FolderError) -> Self {
        Self::Run(error.into())
    }
}

impl From<WriteError> for CompareError {
    fn from(error: WriteError) -> Self {
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
            | Self::NoMethods
            | Self::Reference { .. }
            | Self::With { .. }
            | Self::External(_)
            | Self::Column { .. }
            | Self::NoSeeds
            | Self::SeedRange { .. }
            | Self::TooManySeeds { .. }
            | Self::Foreign { .. }
            | Self::InUse { .. }
            | Self::Differs { .. }
            | Self::UnfinishedDiffers { .. }
            | Self::OtherData { .. }
            | Self::UnreadableSummary { .. } => true,
            Self::Content { .. } | Self::Interrupted { .. } => false,
        }
    }

    pub(crate) fn content(path: &Path, reason: &impl ToString) -> Self {
        Self::Content { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| WriteError { path: path.to_owned(), source }.into()
    }
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {reason}", path = path.display())]
pub struct ExternalError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong in it, and what was expected.
    pub reason: String,
}

impl ExternalError {
    pub(crate) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}
