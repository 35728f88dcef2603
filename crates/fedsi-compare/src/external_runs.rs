//! Other tools' predictions as runs of a comparison: read before anything is written, kept when the runs are over.

use std::path::Path;
use std::sync::Arc;

use fedsi_fl::client::Predictions;

use crate::CompareError;
use crate::external::against::TestRows;
use crate::external::names::ExportedNames;
use crate::external::{ExternalMethod, ExternalPredictions};
use crate::plan::PlannedRun;
use crate::pool::DataCache;
use crate::summarise::{ComparedRun, Outcome};

/// Another tool's predictions of one seed, with the rows that they are of.
pub(crate) struct ExternalRun {
    seed: u64,
    rows: Arc<TestRows>,
    predictions: Predictions,
}

/// Reads other tools' predictions of every seed and holds them against the test rows, so that what does not fit is known
/// before anything is written. Opens each seed's data.
///
/// # Errors
/// A file that cannot be used or does not fit, data that cannot be opened.
pub(crate) fn read_external(
    with: &[ExternalMethod],
    planned: &[PlannedRun],
    seeds: &[u64],
    data: &DataCache,
) -> Result<Vec<Vec<ExternalRun>>, CompareError> {
    let mut all: Vec<Vec<ExternalRun>> = with.iter().map(|_| Vec::new()).collect();
    if with.is_empty() {
        return Ok(all);
    }
    for &seed in seeds {
        let Some(run) = planned.iter().find(|run| run.seed == seed) else { continue };
        let opened = data.open(&run.config)?;
        let names = ExportedNames::of(opened.federation.as_ref());
        let files = with.iter().map(|method| ExternalPredictions::read_exported(&method.path(seed), &names));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let rows = Arc::new(TestRows::of(opened.federation.as_ref()));
        for (runs, file) in all.iter_mut().zip(files) {
            let unidentified = (!rows.identifies(&file)).then(|| file.path.clone());
            let predictions = rows.align(file)?;
            if let Some(path) = unidentified {
                tracing::warn!(
                    "{}: nothing but their number says that its rows are the test rows of seed {seed}: `row` as `fedsi data \
                     export` writes it, or the truth (`label`, `target`), would",
                    path.display()
                );
            }
            runs.push(ExternalRun { seed, rows: Arc::clone(&rows), predictions });
        }
    }
    Ok(all)
}

/// Keeps other tools' predictions in the comparison's folder, and scores them.
pub(crate) fn keep_external(
    method: &ExternalMethod,
    read: Vec<ExternalRun>,
    folder: &Path,
) -> Result<Vec<ComparedRun>, CompareError> {
    fedsi_run::create_folder(&folder.join("with"), fedsi_run::Readers::Umask)?;
    let mut runs = Vec::with_capacity(read.len());
    for ExternalRun { seed, rows, predictions } in read {
        let summary = rows.summary(method, seed, &predictions)?;
        let name = method.folder(seed);
        rows.write(&folder.join(&name), predictions)?;
        runs.push(ComparedRun { seed, folder: name, outcome: Outcome::Complete(Box::new(summary)) });
    }
    Ok(runs)
}
