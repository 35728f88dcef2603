//! Errors of runs and federations as exceptions.

use fedsi_fl::SimulationError;
use fedsi_fl::executor::ExecutorError;
use fedsi_run::RunError;
use fedsi_run::federation::FederationError;
use pyo3::prelude::*;

use crate::errors::Kind;

/// The exception for an error. What Python code raised while it was called comes out as it was.
pub(super) fn raised(error: RunError) -> PyErr {
    match error {
        RunError::Simulation(error) => of_simulation(error),
        other => kind(&other).error(other),
    }
}

fn of_simulation(error: SimulationError) -> PyErr {
    match error {
        SimulationError::Executor(ExecutorError::Exchange(raised)) => match raised.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(other) => Kind::Federation.error(other),
        },
        SimulationError::Config(_) | SimulationError::Memory(_) => Kind::Config.error(error),
        SimulationError::NothingToLearn { .. } => Kind::Data.error(error),
        SimulationError::NoModels { diverged: true, .. } => Kind::Training.error(error),
        other => Kind::Federation.error(other),
    }
}

const fn kind(error: &RunError) -> Kind {
    match error {
        RunError::Config(_) => Kind::Config,
        RunError::Data(_) | RunError::DataChanged { .. } | RunError::DataChangedWhileRead { .. } => {
            Kind::Data
        }
        RunError::Client(_) => Kind::Training,
        RunError::Federation(error) => match error {
            FederationError::Request(_) => Kind::Message,
            FederationError::Data(_) => Kind::Data,
            FederationError::ServerPath { .. } => Kind::Config,
            FederationError::Sites(_)
            | FederationError::Id { .. }
            | FederationError::UnknownClient { .. } => Kind::Input,
            FederationError::Finished { .. } => Kind::Federation,
            _ => Kind::Folder,
        },
        _ => Kind::Folder,
    }
}
