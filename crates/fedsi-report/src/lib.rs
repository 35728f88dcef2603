//! A run as one page: self-contained HTML with plots as inline SVG, made from the run's files alone.

mod error;
mod folder;
mod page;
mod plot;

use std::path::{Path, PathBuf};

pub use error::ReportError;
pub use folder::RunFiles;

/// Makes `report.html` in a complete run's folder, from its files. Returns the page's path.
///
/// # Errors
/// A folder without a complete run, files that are no such files, a page that cannot be written.
pub fn write_run(folder: &Path) -> Result<PathBuf, ReportError> {
    let files = RunFiles::read(folder)?;
    let target = folder.join("report.html");
    std::fs::write(&target, page::run_page(&files)?)
        .map_err(|source| ReportError::File { path: target.clone(), source })?;
    Ok(target)
}
