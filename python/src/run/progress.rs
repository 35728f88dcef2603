//! What Python hears of a run, and how it stops one.

use std::sync::{Mutex, PoisonError};

use fedsi_fl::Simulation;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_run::Observer;
use pyo3::prelude::*;

/// Calls a Python function with `("started", rounds done, rounds, None)`, `("round", round, rounds, record as JSON)` and
/// `("evaluated", clients, all clients, None)`. What it raises, and what a signal raises, stops the run after the step.
pub(super) struct PythonObserver {
    function: Option<Py<PyAny>>,
    rounds: usize,
    raised: Mutex<Option<PyErr>>,
}

impl PythonObserver {
    pub(super) const fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function, rounds: 0, raised: Mutex::new(None) }
    }

    /// What was raised while the run was at work.
    pub(super) fn raise(&self) -> PyResult<()> {
        self.lock().take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first error only: what comes after it is a consequence.
    fn note(&self, outcome: PyResult<()>) {
        if let Err(error) = outcome {
            self.lock().get_or_insert(error);
        }
    }

    fn call(&self, what: &str, done: u64, all: usize, record: Option<String>) {
        let Some(function) = &self.function else { return };
        if self.lock().is_some() {
            return;
        }
        self.note(Python::attach(|py| function.call1(py, (what, done, all, record)).map(drop)));
    }
}

impl Observer for PythonObserver {
    fn started(&mut self, simulation: &Simulation, rounds: usize) {
        self.rounds = rounds;
        self.call("started", simulation.server().round(), rounds, None);
    }

    fn round(&mut self, record: &RoundRecord) {
        // A record has only finite numbers and names: it is JSON.
        let text = serde_json::to_string(record).unwrap_or_else(|_| "{}".to_owned());
        self.call("round", record.round, self.rounds, Some(text));
    }

    fn evaluated(&mut self, clients: usize, total: usize) {
        self.call("evaluated", clients as u64, total, None);
    }

    /// Between rounds and between clients. Signals are for the main thread: elsewhere nothing is found.
    fn wants_to_stop(&self) -> bool {
        if self.lock().is_none() {
            self.note(pending_signal());
        }
        self.lock().is_some()
    }
}

/// What the handler of a signal raises that came since it was last asked; nothing on other threads than the main one.
#[allow(clippy::redundant_closure_for_method_calls)] // the method itself is of one lifetime, not of any
pub(crate) fn pending_signal() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}
