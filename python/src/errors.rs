//! Errors of the crates as the exceptions of `fedsi.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The exceptions of `fedsi.errors` that native code raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Config,
    Data,
    Input,
    Training,
    Posterior,
    Network,
    Folder,
    Message,
    Federation,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Config => "ConfigError",
            Self::Data => "DataError",
            Self::Input => "InputError",
            Self::Training => "TrainingError",
            Self::Posterior => "PosteriorError",
            Self::Network => "NetworkError",
            Self::Folder => "FolderError",
            Self::Message => "MessageError",
            Self::Federation => "FederationError",
        }
    }

    /// An exception of this kind with a message.
    pub(crate) fn error(self, message: impl ToString) -> PyErr {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        Python::attach(|py| {
            let raised = || {
                let module =
                    MODULE.get_or_try_init(py, || py.import("fedsi.errors").map(Bound::unbind))?.bind(py);
                module.getattr(self.name())?.call1((message.to_string(),))
            };
            raised().map_or_else(|error| error, PyErr::from_value)
        })
    }
}
