//! Exceptions of Python code that the engine called, on their way back to Python.

use std::error::Error;
use std::fmt;

use pyo3::prelude::*;

/// An exception that Python code raised while the engine called it.
#[derive(Debug)]
pub(crate) struct PythonFailure {
    exception: Py<PyAny>,
    /// `RuntimeError: mat1 and mat2 shapes cannot be multiplied`: what an exception says can be asked only with the lock.
    words: String,
    /// `RuntimeError`.
    kind: String,
}

impl PythonFailure {
    pub(crate) fn new(py: Python<'_>, error: PyErr) -> Self {
        let kind =
            error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        Self { words: error.to_string(), kind, exception: error.into_value(py).into_any() }
    }

    /// The name of the exception's type.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    fn exception(&self) -> PyErr {
        Python::attach(|py| PyErr::from_value(self.exception.bind(py).clone()))
    }
}

impl fmt::Display for PythonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Error for PythonFailure {}

/// The exception that is at the bottom of an error of the engine, where Python code raised one: to be raised again as it
/// was, `KeyboardInterrupt` included.
pub(crate) fn python_error(error: &(dyn Error + 'static)) -> Option<PyErr> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(failure) = error.downcast_ref::<PythonFailure>() {
            return Some(failure.exception());
        }
        next = error.source();
    }
    None
}
