//! A run or a comparison as one page: self-contained HTML with plots as inline SVG, and the plots as files for papers.
//! Made from saved files alone: neither the data nor the network is needed.
//!
//! - `folder`: reads a run's files.
//! - `series`: the data of plots of its predictions, pooled and of each client.
//! - `plots`: each plot drawn once for the page and once for papers.
//! - `headline`, `sample_gallery`, `run_page`: the text and samples of a run's page; the rest is in `templates/`.
//! - `method_runs`, `comparison`: the page of several methods, from the folders of their runs.
//! - `script_data`: what the page's script needs to show one client.
//! - `links`: addresses on a page; `output`: writes a page and its plots.

mod comparison;
mod error;
mod folder;
mod format;
mod headline;
mod image;
mod links;
mod method_runs;
mod output;
#[cfg(test)]
mod plot_snapshots;
mod plots;
mod run_page;
mod sample_gallery;
mod script_data;
mod series;

use std::path::{Path, PathBuf};

use fedsi_compare::Comparison;
use fedsi_run::{FolderError, FolderLock, RunFolder, Summary};

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

/// Regenerates the page and the plots of a complete run or comparison. Returns the page's path.
///
/// # Errors
/// A folder that holds neither, a page that cannot be written.
pub fn remake(folder: &Path) -> Result<PathBuf, ReportError> {
    RunFolder::recover(folder)?;
    let _lock = match is_ours(folder) {
        true => {
            Some(FolderLock::acquire(folder)?.ok_or_else(|| FolderError::InUse { path: folder.to_owned() })?)
        }
        false => None,
    };
    if is_ours(folder) {
        fedsi_run::remove_temporary(folder)?;
    }
    if folder.join("compare.json").is_file() {
        return write_comparison(folder, &Comparison::read(folder)?);
    }
    write(folder, &RunFiles::open(folder)?)
}

/// Whether a folder holds a run or a comparison: no other is locked.
fn is_ours(folder: &Path) -> bool {
    ["config.toml", "compare.toml"].iter().any(|name| folder.join(name).is_file())
}

fn write(folder: &Path, files: &RunFiles) -> Result<PathBuf, ReportError> {
    output::write(folder, &run_page::run_page(files)?)
}
