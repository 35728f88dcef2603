//! What can keep a page from being made.

use std::path::PathBuf;

use thiserror::Error;

/// Why there is no page.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The page cannot be written.
    #[error(transparent)]
    Write(#[from] fedsi_fl::RunError),
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
    /// A plot or page cannot be drawn.
    #[error("cannot draw the page: {0}")]
    Drawing(String),
}
