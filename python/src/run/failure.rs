//! Errors of runs, folders and reports as exceptions, with what to do about them in terms of the Python package.

use fedsi_fl::SimulationError;
use fedsi_report::ReportError;
use fedsi_run::{FolderError, RunError};
use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;

use crate::errors::Kind;

const OTHER_FOLDER: &str = "; give another folder as out";
const NEW_RUN: &str = "; start a new run with fedsi.run";

/// Why a run did not start, or did not finish.
pub(crate) fn run_failure(error: RunError) -> PyErr {
    let (kind, advice) = match error {
        RunError::Folder(error) => return folder_failure(error),
        RunError::Simulation(error) => return simulation_failure(&error),
        // Asked to stop by something that left no exception behind.
        RunError::Interrupted { .. } => return PyKeyboardInterrupt::new_err(error.to_string()),
        RunError::Config(_) => (Kind::Config, ""),
        RunError::Device(_) => (Kind::Config, "; give device=\"cpu\", or \"auto\", which falls back to it"),
        RunError::Data(_) => (Kind::Data, ""),
        RunError::DataChanged { .. } => {
            (Kind::Data, "; put the data back as it was, or start a new run with overwrite=True")
        }
        RunError::DataChangedWhileRead { .. } => (Kind::Data, "; start again once nothing writes to it"),
        RunError::States(_) => (Kind::Folder, "; resume that one, or start a new run with fedsi.run"),
        RunError::Origin(_) | RunError::Checkpoint(_) => (Kind::Folder, NEW_RUN),
        _ => (Kind::Folder, ""),
    };
    kind.error(format!("{error}{advice}"))
}

fn simulation_failure(error: &SimulationError) -> PyErr {
    let kind = match error {
        SimulationError::Config(_) | SimulationError::Memory(_) => Kind::Config,
        SimulationError::NothingToLearn { .. } => Kind::Data,
        SimulationError::Server(_) => Kind::Federation,
        SimulationError::Store(_) => Kind::Folder,
        _ => Kind::Training,
    };
    kind.error(error)
}

/// Why a folder cannot be a run's.
pub(crate) fn folder_failure(error: FolderError) -> PyErr {
    let advice = match error {
        FolderError::Config(error) => return Kind::Config.error(error),
        FolderError::HoldsARun { .. } => {
            "; give another folder as out, resume=True to go on with it, or overwrite=True to replace it"
        }
        FolderError::NotAFolder { .. }
        | FolderError::CannotBeMade { .. }
        | FolderError::CannotBeRead { .. }
        | FolderError::ForeignEntry { .. }
        | FolderError::ForeignFiles { .. }
        | FolderError::Link { .. }
        | FolderError::JustTaken { .. } => OTHER_FOLDER,
        _ => "",
    };
    Kind::Folder.error(format!("{error}{advice}"))
}

/// Why there is no page.
pub(crate) fn report_failure(error: &ReportError) -> PyErr {
    Kind::Folder.error(format!("the run is complete and saved, but its report failed: {error}"))
}
