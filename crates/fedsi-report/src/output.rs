//! A rendered page and its plots, and where they are written.

use std::path::{Path, PathBuf};

use fedsi_run::{Readers, create_folder};

use crate::ReportError;
use crate::plots::Drawing;

/// A page and the plots on it.
pub(crate) struct RenderedPage {
    pub(crate) page: String,
    /// Who may read it: a page that shows values of single rows of a table is its owner's.
    pub(crate) readers: Readers,
    pub(crate) plots: Vec<Drawing>,
}

/// Whether plots are written as PDF too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PdfPlots {
    /// Every plot.
    All,
    /// Those that are there already, so that none is older than its page.
    Existing,
}

/// Writes a page and its plots, all of which are drawn by now: each file whole or not at all, the page last.
pub(crate) fn write(folder: &Path, rendered: &RenderedPage, pdf: PdfPlots) -> Result<PathBuf, ReportError> {
    let plots = folder.join("plots");
    create_folder(&plots, Readers::Umask)?;
    for plot in &rendered.plots {
        for (kind, bytes) in [("svg", plot.svg.as_bytes()), ("png", &plot.png)] {
            fedsi_run::write_whole(&plots.join(format!("{}.{kind}", plot.name)), bytes)?;
        }
        let target = plots.join(format!("{}.pdf", plot.name));
        if pdf == PdfPlots::All || target.is_file() {
            fedsi_run::write_whole(&target, &plot.pdf)?;
        }
    }
    let target = folder.join("report.html");
    fedsi_run::write_for(rendered.readers, &target, rendered.page.as_bytes())?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn page() -> RenderedPage {
        RenderedPage { page: "new".to_owned(), readers: Readers::Umask, plots: Vec::new() }
    }

    #[test]
    fn a_page_is_written_and_nothing_temporary_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = write(folder.path(), &page(), PdfPlots::Existing).unwrap();
        assert_eq!(fs::read_to_string(target).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_links() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("plots")).unwrap();
        let error = write(folder.path(), &page(), PdfPlots::Existing).unwrap_err().to_string();
        assert!(error.contains("plots") && error.contains("is not a folder"), "{error}");
        fs::remove_file(folder.path().join("plots")).unwrap();
        let own = elsewhere.path().join("own.html");
        fs::write(&own, "mine").unwrap();
        std::os::unix::fs::symlink(&own, folder.path().join("report.html")).unwrap();
        write(folder.path(), &page(), PdfPlots::Existing).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "mine", "the link is replaced, not followed");
    }
}
