//! `fedsi calibrate`: the scores of predictions from a file.

mod folder;
mod scored;
mod table;

use fedsi_compare::ExternalPredictions;
use fedsi_metrics::Bins;

pub(crate) use folder::{CalibrationFolder, title};
pub(crate) use scored::Scored;

use crate::args::CalibrateArguments;
use crate::output::{print, print_json};

pub(crate) fn calibrate(arguments: &CalibrateArguments) -> anyhow::Result<()> {
    let bins = Bins::new(arguments.bins)?;
    // Before anything is computed: a folder with other files is refused.
    let folder =
        arguments.out.as_deref().map(|path| CalibrationFolder::inspect(path, "--out")).transpose()?;
    let file = ExternalPredictions::read(&arguments.file)?;
    let scored = Scored::of(&file, bins)?;
    if let Some(folder) = folder {
        let report = folder.write(&scored, &title(&arguments.file))?;
        tracing::info!("report: {}", report.display());
    }
    if arguments.table { print(&scored.table()) } else { print_json(&scored.json()) }
}
