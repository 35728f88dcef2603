//! A run as one page: self-contained HTML with plots as inline SVG, made from the run's files alone.

mod comparison;
mod error;
mod folder;
mod page;
mod plot;

use std::path::{Path, PathBuf};

use fedsi_fl::record::Summary;

pub use comparison::write_comparison;
pub use error::ReportError;
pub use folder::RunFiles;

/// Makes `report.html` in the folder of a run that is complete but for its summary. Returns the page's path.
///
/// # Errors
/// Files that are missing or no such files, a page that cannot be written.
pub fn write_run(folder: &Path, summary: &Summary) -> Result<PathBuf, ReportError> {
    let files = RunFiles::read(folder, summary.clone())?;
    let target = folder.join("report.html");
    fedsi_fl::write_whole(&target, page::run_page(&files)?.as_bytes())?;
    Ok(target)
}
