//! `fedsi report`.

use std::path::PathBuf;

use fedsi_report::PdfPlots;
use serde_json::json;

use crate::args::ReportArguments;
use crate::output::{BadInput, print, print_json};

/// Makes the pages in the order of the folders; the first that cannot be made ends it.
pub(crate) fn report(arguments: &ReportArguments, quiet: bool, as_json: bool) -> anyhow::Result<()> {
    let pdf = if arguments.pdf { PdfPlots::All } else { PdfPlots::Existing };
    let remake = |folder: &PathBuf| {
        fedsi_report::remake_with(folder, pdf).map_err(|error| match error.is_bad_input() {
            true => BadInput(error.to_string()).into(),
            false => anyhow::Error::new(error),
        })
    };
    let pages: Vec<PathBuf> = arguments.folders.iter().map(remake).collect::<Result<_, _>>()?;
    if as_json {
        let found: Vec<_> = arguments.folders.iter().zip(&pages).collect();
        let found = found.iter().map(|(folder, page)| json!({ "folder": folder, "report": page }));
        return print_json(&found.collect::<Vec<_>>());
    }
    if quiet {
        return Ok(());
    }
    print(&pages.iter().map(|page| format!("{}\n", page.display())).collect::<String>())
}
