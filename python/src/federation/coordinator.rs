//! The server's end.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use fedsi_fl::executor::Exchange;
use fedsi_run::RunError;
use fedsi_run::federation::{FederationServer, FederationSetup};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::data::{common_client, given, outline};
use super::raised::raised;
use super::{read_config, to_python};
use crate::errors::Kind;

/// The server of a federation whose clients are at sites of their own, with its folder.
///
/// `step` and `score` call `exchange(kind, requests)` with the interpreter lock held: `kind` is "train", "score-candidates" or
/// "score-test", `requests` a list of pairs of a client's number and bytes for its site. It returns or yields pairs of a
/// client's number and the bytes that its site answered; who is missing did not answer. What it raises comes out unchanged, and
/// the federation is that of the round before.
#[pyclass(frozen, module = "fedsi._native")]
pub(crate) struct Coordinator {
    /// None once it is closed.
    server: Mutex<Option<FederationServer>>,
    exchange: Arc<PythonExchange>,
    federation_id: String,
    sites: Vec<String>,
    rounds: usize,
    /// Also readable while a step is at work.
    round: AtomicU64,
    epsilon: Mutex<Option<f64>>,
}

#[pymethods]
impl Coordinator {
    #[new]
    #[pyo3(signature = (config_toml, clients, agreement, folder, network = None, resume = false))]
    fn new(
        py: Python<'_>,
        config_toml: &str,
        clients: Vec<String>,
        agreement: Option<PyBackedBytes>,
        folder: PathBuf,
        network: Option<&Bound<'_, PyAny>>,
        resume: bool,
    ) -> PyResult<Self> {
        let config = read_config(config_toml)?;
        let agreement = agreement.map(|bytes| bytes.to_vec());
        let outline = outline(&config, &clients, agreement.as_deref())?;
        let client = common_client(&config, outline.as_ref(), network)?;
        let own_network = given(network).is_some();
        let rounds = config.rounds;
        let setup = FederationSetup { config, sites: clients, agreement, client, outline, own_network };
        let exchange = Arc::new(PythonExchange::default());
        let handle = Box::new(Handle(Arc::clone(&exchange)));
        let open = if resume { FederationServer::resume } else { FederationServer::create };
        let server = py.detach(|| open(&folder, setup, handle)).map_err(raised)?;
        Ok(Self {
            federation_id: server.id().to_owned(),
            sites: server.sites().to_vec(),
            rounds,
            round: AtomicU64::new(server.round()),
            epsilon: Mutex::new(server.coordinator().server().epsilon()),
            exchange,
            server: Mutex::new(Some(server)),
        })
    }

    /// Rounds completed, skipped ones included.
    #[getter]
    fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    /// Rounds that the config asks for.
    #[getter]
    const fn rounds(&self) -> usize {
        self.rounds
    }

    /// The names of the sites, in the order of clients.
    #[getter]
    fn clients(&self) -> Vec<String> {
        self.sites.clone()
    }

    /// What tells this federation from any other; its sites must know it.
    #[getter]
    fn federation_id(&self) -> &str {
        &self.federation_id
    }

    /// The privacy bound after the rounds so far; `None` without privacy.
    #[getter]
    fn epsilon(&self) -> Option<f64> {
        *self.epsilon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the folder, so that another process, or another coordinator, can go on. Everything is on disk already.
    fn close(&self) -> PyResult<()> {
        self.free()?.take();
        Ok(())
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    /// One whole round: training and, where it is due, the choices on data set aside. Writes its line of `metrics.jsonl` and a
    /// checkpoint, and returns the line as a dict.
    fn step(&self, py: Python<'_>, exchange: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let record = self.work(py, exchange, FederationServer::step)?;
        to_python(py, &record)
    }

    /// Has every site score its personal model on its own test samples, writes `result.json` and the shared model, and returns
    /// the former as a dict.
    fn score(&self, py: Python<'_>, exchange: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let result = self.work(py, exchange, FederationServer::score)?;
        to_python(py, &result)
    }
}

impl Coordinator {
    /// Work that exchanges messages. On this thread, so that Ctrl-C is raised in the code that exchanges them.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        exchange: Py<PyAny>,
        work: impl FnOnce(&mut FederationServer) -> Result<T, RunError> + Send,
    ) -> PyResult<T> {
        if !exchange.bind(py).is_callable() {
            return Err(Kind::Input.error("exchange: expected a function (kind, requests) -> answers"));
        }
        let mut held = self.free()?;
        let Some(server) = held.as_mut() else {
            return Err(Kind::Folder.error("this coordinator is closed: open another with resume=True"));
        };
        *self.exchange.slot() = Some(exchange);
        let done = py.detach(|| {
            let done = work(server);
            self.round.store(server.round(), Ordering::Relaxed);
            *self.epsilon.lock().unwrap_or_else(PoisonError::into_inner) =
                server.coordinator().server().epsilon();
            done
        });
        *self.exchange.slot() = None;
        py.check_signals()?;
        done.map_err(raised)
    }

    /// The server, where nobody works with it. Not waited for: whoever works may need the interpreter lock.
    fn free(&self) -> PyResult<MutexGuard<'_, Option<FederationServer>>> {
        match self.server.try_lock() {
            Ok(server) => Ok(server),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Kind::Federation.error("a step of this coordinator is at work: wait until it returns"))
            }
        }
    }
}

/// The function that exchanges messages, while there is one.
#[derive(Default)]
struct PythonExchange(Mutex<Option<Py<PyAny>>>);

impl PythonExchange {
    fn slot(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's end of it.
struct Handle(Arc<PythonExchange>);

impl Exchange for Handle {
    fn exchange(
        &self,
        kind: &str,
        requests: Vec<(usize, Vec<u8>)>,
        each: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let exchanged = Python::attach(|py| -> PyResult<()> {
            let function = self.0.slot().as_ref().map(|function| function.clone_ref(py));
            let function = function.ok_or_else(|| Kind::Federation.error("no exchange is at work"))?;
            let requests = requests.into_iter().map(|(client, request)| (client, PyBytes::new(py, &request)));
            let requests = PyList::new(py, requests.collect::<Vec<_>>())?;
            let answers = function.bind(py).call1((kind, requests))?;
            for answer in answers.try_iter()? {
                let answer = answer?;
                let (client, bytes): (usize, PyBackedBytes) = answer.extract().map_err(|_| {
                    let found = answer.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
                    Kind::Input.error(format!(
                        "exchange: expected pairs of a client's number and the bytes it answered; found {found}"
                    ))
                })?;
                if each(client, &bytes).is_break() {
                    break;
                }
            }
            Ok(())
        });
        exchanged.map_err(Into::into)
    }
}
