//! What can keep a page from being made.

use std::path::PathBuf;

use thiserror::Error;

/// Why there is no page.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There is no complete run and no complete comparison in the folder.
    #[error("{path} {reason}", path = path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What is there instead.
        reason: &'static str,
    },
    /// Somebody works in the folder, or a replacement that was cut short there cannot be ended.
    #[error(transparent)]
    Folder(#[from] fedsi_run::FolderError),
    /// The page cannot be written.
    #[error(transparent)]
    Write(#[from] fedsi_run::WriteError),
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what a run writes there.
    #[error("{path} is not what a run writes: {reason}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// What a comparison found cannot be read.
    #[error(transparent)]
    Comparison(#[from] fedsi_compare::CompareError),
    /// A plot or page cannot be drawn.
    #[error("cannot draw the page: {0}")]
    Drawing(String),
}

impl ReportError {
    /// Whether what was asked for is at fault, not the machine: there is no run, or its files are no such files.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        if let Self::Folder(error) = self {
            return error.is_bad_input();
        }
        matches!(self, Self::NoRun { .. } | Self::Content { .. } | Self::File { .. } | Self::Comparison(_))
    }
}
