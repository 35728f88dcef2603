//! Whether a run's models notice inputs unlike their training data: measured once, while the run's models are there, and kept
//! in its folder.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use fedsi_data::Federation;
use fedsi_run::ood::{InputSet, OodSettings, OtherDatasets, measure_ood, open_run_data};
use fedsi_run::saved::SavedRun;

use crate::PaperError;
use crate::record::StrangeInputs;

/// The file in a run's folder.
const FILE: &str = "strange_inputs.json";

/// Samples of each kind that a client's model is shown.
const SAMPLES: usize = 100;

/// Shows the models of a complete run another dataset, where one of the same shape is there, and classes that their clients
/// never saw, and writes down how well they tell. Costs about as many predictions as clients times [`SAMPLES`] times three,
/// and reading the other dataset.
///
/// # Errors
/// A run whose models cannot be read, a dataset that is not there.
pub(crate) fn measure(folder: &Path, federation: &dyn Federation) -> Result<(), PaperError> {
    let unusable = |error: &dyn std::error::Error| PaperError::content(folder, &error.to_string());
    let run = SavedRun::open(folder).map_err(|error| unusable(&error))?;
    let other = match run.config().dataset().name() {
        "mnist" => vec!["fashion-mnist".to_owned()],
        "fashion-mnist" => vec!["mnist".to_owned()],
        _ => Vec::new(),
    };
    // A folder with MNIST alone is enough for a look.
    let has = |name: &String| run.config().data.dir.join(name).is_dir();
    let datasets = OtherDatasets::Named(other.into_iter().filter(has).collect());
    let settings = OodSettings { datasets, data_dir: None, samples: SAMPLES, corrupted: false };
    let found = measure_ood(&run, federation, &settings).map_err(|error| unusable(&error))?;
    let told = found.sets.into_iter().filter(|set| set.inputs != InputSet::Own).map(|set| {
        (
            set.inputs.to_string(),
            StrangeInputs { entropy: set.auroc_entropy, strangeness: set.auroc_strangeness },
        )
    });
    let told: BTreeMap<String, StrangeInputs> = told.collect();
    let path = folder.join(FILE);
    let text = serde_json::to_string(&told).map_err(|error| PaperError::content(&path, &error))?;
    Ok(fedsi_run::write_whole(&path, text.as_bytes())?)
}

/// Whether that was done for a run.
pub(crate) fn is_measured(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// The same where the run's data is not open. Costs opening it.
///
/// # Errors
/// As [`measure`], and data that is not there or has changed.
pub(crate) fn measure_saved(folder: &Path) -> Result<(), PaperError> {
    let run = SavedRun::open(folder).map_err(|error| PaperError::content(folder, &error))?;
    let data = open_run_data(&run, None)?;
    measure(folder, data.federation.as_ref())
}

/// What was measured; nothing where nothing was.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, StrangeInputs>, PaperError> {
    let path = folder.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| PaperError::content(&path, &error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(PaperError::content(&path, &error)),
    }
}
