//! What the models of a finished run make of inputs that are not like those they were trained on: other datasets, classes
//! that a client never saw, its own test samples changed on purpose.
//!
//! ```no_run
//! use fedsi_run::ood::{OodSettings, OtherDatasets, measure_ood, open_run_data};
//! use fedsi_run::saved::SavedRun;
//!
//! let run = SavedRun::open("runs/fedsi-mnist-small-s1".as_ref())?;
//! let data = open_run_data(&run, None)?;
//! let settings = OodSettings {
//!     datasets: OtherDatasets::Named(vec!["fashion-mnist".to_owned()]),
//!     data_dir: None,
//!     samples: 100,
//!     corrupted: false,
//! };
//! let found = measure_ood(&run, data.federation.as_ref(), &settings)?;
//! for set in found.sets {
//!     println!("{}: {:?}", set.inputs, set.auroc_strangeness);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod error;
mod inputs;

use std::path::{Path, PathBuf};

use fedsi_data::{Federation, Task};
use rayon::prelude::*;

use crate::saved::{SavedError, SavedRun};
use crate::settings::{paths, read_config};
use crate::{OpenData, Origin, RunError};
use answers::Answers;
use inputs::{OtherDataset, Shown};

pub use answers::Measured;
pub use error::OodError;
pub use inputs::InputSet;

/// What models are shown beside their clients' own test samples and samples of classes that they never saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OodSettings {
    /// Which other datasets.
    pub datasets: OtherDatasets,
    /// The folder that holds them; by default the run's own.
    pub data_dir: Option<PathBuf>,
    /// The most samples of each set that a client's model is shown, at least 1.
    pub samples: usize,
    /// Whether images are also shown rotated, shifted, blurred, noisy and partly hidden, at five strengths each: 25 sets,
    /// nine tenths of the work.
    pub corrupted: bool,
}

/// Which other datasets models are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherDatasets {
    /// All built-in ones whose inputs have the shape of the run's and that are there: the built-in digits are made, the
    /// others read where the data folder has them.
    Available,
    /// These; none where it is empty.
    Named(Vec<String>),
}

/// What models made of all sets.
#[derive(Clone, Debug, PartialEq)]
pub struct OodMeasurement {
    /// Clients whose models were asked.
    pub clients: usize,
    /// Clients without a usable model or test samples.
    pub left_out: usize,
    /// The clients' own test samples first.
    pub sets: Vec<Measured>,
}

/// Opens the data that a run was made from, where it is now (in `data_dir`, where one is given), and checks that it is
/// unchanged. Costs what opening costs, and reading its files twice more.
///
/// # Errors
/// Data that cannot be opened, or that changed since the run began. Runs of 0.1 did not say what their data was: theirs is
/// not checked.
pub fn open_run_data(run: &SavedRun, data_dir: Option<&Path>) -> Result<OpenData, RunError> {
    let mut config = read_config(run.path())?;
    if let Some(dir) = data_dir {
        config.data.dir = dir.to_owned();
    }
    for path in paths(&mut config) {
        if !path.as_os_str().is_empty() {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
    }
    let data = OpenData::open(&config.check()?)?;
    if let Some(origin) = Origin::read(run.path())?
        && let Some(change) = origin.data.change(&data.digest)
    {
        return Err(RunError::DataChanged { path: run.path().to_owned(), change });
    }
    Ok(data)
}

/// Shows every client's model its sets of inputs. `federation` is the run's own data ([`open_run_data`]).
///
/// Cost: of each client its model's file, and for each set a prediction of `samples` inputs and about a forward pass more;
/// sets are 2, one for each other dataset, and 25 of images where `corrupted`. Clients are asked in parallel, on the current
/// pool of rayon; the result does not depend on their number. Memory: the probabilities of all clients and sets
/// (100 clients, 28 sets, 500 samples, 10 classes: 56 MB) and the other datasets.
///
/// # Errors
/// A run of regression, other datasets that are not known, have inputs of another shape or are not there, models that
/// cannot be read, and a run without any client that can be asked.
pub fn measure_ood(
    run: &SavedRun,
    federation: &dyn Federation,
    settings: &OodSettings,
) -> Result<OodMeasurement, OodError> {
    if settings.samples == 0 {
        return Err(OodError::NoSamples);
    }
    let Task::Classification { classes } = federation.task() else {
        return Err(OodError::PredictsValues { path: run.path().to_owned() });
    };
    let others = inputs::other_datasets(run, settings, federation)?;
    let asked = ask_all(run, federation, &others, settings)?;
    let left_out = run.clients().len() - asked.len();
    if asked.is_empty() {
        return Err(OodError::NoClients { path: run.path().to_owned() });
    }
    Ok(OodMeasurement { clients: asked.len(), left_out, sets: answers::measure(&asked, classes)? })
}

/// The answers of every client that has a model and test samples, in the order of their ids.
fn ask_all(
    run: &SavedRun,
    federation: &dyn Federation,
    others: &[OtherDataset],
    settings: &OodSettings,
) -> Result<Vec<Vec<(InputSet, Answers)>>, SavedError> {
    let ids: Vec<usize> = run.clients().iter().map(|client| client.id).collect();
    let ask = |&id: &usize| -> Result<Option<Vec<(InputSet, Answers)>>, SavedError> {
        let model = match run.client(id) {
            // What the run says of it already: it is left out here as it is there.
            Err(SavedError::NoPosterior { .. }) => return Ok(None),
            model => model?,
        };
        let shown = inputs::shown(federation, id, others, settings, run.config().seed);
        if shown.is_empty() {
            return Ok(None);
        }
        let answer = |Shown { set, inputs, labels }: Shown| Ok((set, Answers::of(&model, &inputs, labels)?));
        match shown.into_iter().map(answer).collect() {
            Err(SavedError::NotFinite { .. }) => Ok(None),
            answers => answers.map(Some),
        }
    };
    let found: Vec<Option<_>> = ids.par_iter().map(ask).collect::<Result<_, _>>()?;
    Ok(found.into_iter().flatten().collect())
}
