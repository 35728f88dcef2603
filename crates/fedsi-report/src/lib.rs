//! A run or a comparison as one page: self-contained HTML with plots as inline SVG, and the plots as files for papers.
//! Made from saved files alone: neither the data nor the network is needed.
//!
//! - `folder`: what a run wrote, read.
//! - `series`: what plots show of its predictions, pooled and of each client.
//! - `plots`: each plot drawn once for the page and once for papers.
//! - `headline`, `gallery`, `page`: what the page says; the rest is in `templates/`.
//! - `comparison`: the same of several methods, from the folders of their runs.
//! - `embed`: what the page's script needs to show one client.

mod comparison;
mod embed;
mod error;
mod folder;
mod gallery;
mod headline;
mod image;
mod page;
mod plots;
mod series;
#[cfg(test)]
mod structure;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_compare::Comparison;
use fedsi_fl::record::Summary;

pub use comparison::write_comparison;
pub use error::ReportError;
pub use folder::RunFiles;

/// Makes `report.html` and `plots/` in the folder of a run that is complete but for its summary. Returns the page's
/// path.
///
/// # Errors
/// Files that are missing or no such files, a page that cannot be written.
pub fn write_run(folder: &Path, summary: &Summary) -> Result<PathBuf, ReportError> {
    write(folder, &RunFiles::read(folder, summary.clone())?)
}

/// Makes the page and the plots of a complete run or comparison anew. Returns the page's path.
///
/// # Errors
/// A folder that holds neither, a page that cannot be written.
pub fn remake(folder: &Path) -> Result<PathBuf, ReportError> {
    if folder.join("compare.json").is_file() {
        return write_comparison(folder, &Comparison::read(folder)?);
    }
    write(folder, &RunFiles::open(folder)?)
}

fn write(folder: &Path, files: &RunFiles) -> Result<PathBuf, ReportError> {
    write_made(folder, &page::run_page(files)?)
}

/// Writes a page and its plots, all of which are drawn by now.
fn write_made(folder: &Path, made: &page::Made) -> Result<PathBuf, ReportError> {
    let plots = folder.join("plots");
    let failed = |path: &Path, source| ReportError::Plot { path: path.to_owned(), source };
    fs::create_dir_all(&plots).map_err(|error| failed(&plots, error))?;
    for plot in &made.plots {
        // Not synced one by one, which would take longer than drawing: a plot that a crash takes is made again.
        for (kind, bytes) in [("svg", plot.svg.as_bytes()), ("png", &plot.png)] {
            let path = plots.join(format!("{}.{kind}", plot.name));
            fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        }
    }
    let target = folder.join("report.html");
    fedsi_fl::write_whole(&target, made.page.as_bytes())?;
    Ok(target)
}
