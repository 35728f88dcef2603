//! A rendered page and its plots, and where they are written.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ReportError;
use crate::plots::Drawing;

/// A page and the plots on it.
pub(crate) struct RenderedPage {
    pub(crate) page: String,
    pub(crate) plots: Vec<Drawing>,
}

/// Writes a page and its plots, all of which are drawn by now.
pub(crate) fn write(folder: &Path, rendered: &RenderedPage) -> Result<PathBuf, ReportError> {
    let plots = folder.join("plots");
    let failed = |path: &Path, source| ReportError::Plot { path: path.to_owned(), source };
    fs::create_dir_all(&plots).map_err(|error| failed(&plots, error))?;
    for plot in &rendered.plots {
        // Not synced one by one, which would take longer than drawing: a plot that a crash takes is made again.
        for (kind, bytes) in [("svg", plot.svg.as_bytes()), ("png", &plot.png)] {
            let path = plots.join(format!("{}.{kind}", plot.name));
            fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
        }
    }
    let target = folder.join("report.html");
    fedsi_run::write_whole(&target, rendered.page.as_bytes())?;
    Ok(target)
}
