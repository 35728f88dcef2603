//! A run or a comparison as one page: self-contained HTML with plots as inline SVG, and the plots as files for papers.
//! Made from saved files alone: neither the data nor the network is needed.
//!
//! - `folder`: reads a run's files.
//! - `series`: the data of plots of its predictions, pooled and of each client.
//! - `plots`: each plot drawn once for the page and once for papers.
//! - `run_verdict`, `client_verdict`: what scores allow to say, of a run and of each client, by intervals and tests.
//! - `headline`, `confusion_table`, `conformal_section`, `data_summary`, `sample_gallery`, `run_page`: the text, tables and
//!   samples of a run's page; the rest is in `templates/`.
//! - `method_runs`, `comparison`: the page of several methods, from the folders of their runs.
//! - `script_data`: what the page's script needs to show one client.
//! - `calibration_page`: the page of predictions from a file, without a run.
//! - [`figures`]: figures for papers from plain data, as SVG text.
//! - `links`: addresses on a page; `output`: writes a page and its plots.

mod calibration_page;
mod client_verdict;
mod comparison;
mod config_facts;
mod conformal_section;
mod confusion_table;
mod data_summary;
mod error;
mod folder;
mod format;
mod headline;
mod image;
mod links;
mod method_runs;
mod ood;
mod output;
#[cfg(test)]
mod plot_snapshots;
mod plots;
mod run_page;
mod run_verdict;
mod sample_gallery;
mod script_data;
mod series;
mod tile;
mod words;

use std::path::{Path, PathBuf};

use fedsi_compare::Comparison;
use fedsi_run::{FolderError, FolderLock, RunFolder, Summary};

pub use calibration_page::{
    CALIBRATION_PLOTS, CalibratedClient, CalibratedRows, Calibration, write_calibration,
};
pub use comparison::write_comparison;
pub use error::ReportError;
pub use folder::RunFiles;
pub use output::PdfPlots;
pub use plots::figures;
pub use run_verdict::{interval_note, run_verdict};

/// Makes `report.html` and `plots/` in the folder of a run that is complete but for its summary. Returns the page's
/// path.
///
/// # Errors
/// Files that are missing or no such files, a page that cannot be written.
pub fn write_run(folder: &Path, summary: &Summary) -> Result<PathBuf, ReportError> {
    write(folder, &RunFiles::read(folder, summary.clone())?, PdfPlots::Existing)
}

/// Regenerates the page and the plots of a complete run or comparison, or of the finished runs of a comparison that was
/// stopped. Returns the page's path.
///
/// # Errors
/// A folder that holds neither, a page that cannot be written.
pub fn remake(folder: &Path) -> Result<PathBuf, ReportError> {
    remake_with(folder, PdfPlots::Existing)
}

/// [`remake`], with PDF plots where they are wanted.
///
/// # Errors
/// A folder that holds neither, a page that cannot be written.
pub fn remake_with(folder: &Path, pdf: PdfPlots) -> Result<PathBuf, ReportError> {
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
        return comparison::write_with_pdf(folder, &Comparison::read(folder)?, pdf);
    }
    // One that was stopped: what its finished runs say.
    if folder.join("compare.toml").is_file()
        && let Ok(Some(comparison)) = Comparison::unfinished(folder)
    {
        return comparison::write_with_pdf(folder, &comparison, pdf);
    }
    write(folder, &RunFiles::open(folder)?, pdf)
}

/// Whether a folder holds a run or a comparison: no other is locked.
fn is_ours(folder: &Path) -> bool {
    ["config.toml", "compare.toml"].iter().any(|name| folder.join(name).is_file())
}

fn write(folder: &Path, files: &RunFiles, pdf: PdfPlots) -> Result<PathBuf, ReportError> {
    output::write(folder, &run_page::run_page(files)?, pdf)
}
