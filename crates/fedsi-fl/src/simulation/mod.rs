//! A whole federation in one process: the same client and server as in a real one, with faults on request.

mod evaluate;
mod faults;
mod record;
mod round;
mod snapshot;
mod validate;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use fedsi_data::{Federation, Split};
use fedsi_random::Streams;

pub use evaluate::{ClientEvaluation, Evaluation, EvaluationRequest};
pub use faults::{Arrival, Fault, RoundFaults};
pub use record::{RoundRecord, RoundSeconds, SubnetworkRecord, Tally};
pub use snapshot::{Snapshot, SnapshotError};

use crate::client::{Client, ClientError, LocalData, PersonalModel};
use crate::client_store::{ClientStore, MemoryStore, StoreError};
use crate::config::ConfigError;
use crate::cost::MemoryEstimate;
use crate::error::SimulationError;
use crate::executor::{CpuExecutor, Executor, ExecutorError, Outcome, Task, Work, Worker};
use crate::parameters::Parameters;
use crate::registry::Checked;
use crate::server::Server;
use crate::wire::Download;

/// Server, clients and everything between them. Holds the server's state, what clients keep, and no other client state.
pub struct Simulation {
    config: Checked,
    federation: Arc<dyn Federation>,
    client: Arc<Client>,
    executor: Box<dyn Executor>,
    streams: Streams,
    server: Server,
    store: Box<dyn ClientStore>,
}

impl Simulation {
    /// A federation before its first round, on the cores of this machine.
    ///
    /// # Errors
    /// A network that does not fit the data, more memory than there is, more participants than clients, a client that
    /// holds out all it has.
    pub fn new(config: &Checked, federation: Arc<dyn Federation>) -> Result<Self, SimulationError> {
        let (data, threads) = (Arc::clone(&federation), config.threads);
        Self::with_executor(config, federation, |client| {
            let worker = Worker::new(Arc::clone(client), data);
            Ok(Box::new(CpuExecutor::new(worker, threads)?))
        })
    }

    /// The same with another executor, made for these clients.
    ///
    /// # Errors
    /// As [`Self::new`], and what `make` says.
    pub fn with_executor(
        config: &Checked,
        federation: Arc<dyn Federation>,
        make: impl FnOnce(&Arc<Client>) -> Result<Box<dyn Executor>, ExecutorError>,
    ) -> Result<Self, SimulationError> {
        refuse_too_large(config, federation.as_ref())?;
        let (shape, task) = (federation.input_shape(), federation.task());
        let client = Client::of_config(config, shape, task, federation.target_scaling().cloned())?;
        Self::with_client(config, federation, Arc::new(client), make)
    }

    /// The same with clients whose network is of another library: made by [`Client::new`] for this config and data.
    ///
    /// # Errors
    /// More participants than clients, a client that holds out all it has, privacy of data whose scales would tell of
    /// clients, and what `make` says.
    pub fn with_client(
        config: &Checked,
        federation: Arc<dyn Federation>,
        client: Arc<Client>,
        make: impl FnOnce(&Arc<Client>) -> Result<Box<dyn Executor>, ExecutorError>,
    ) -> Result<Self, SimulationError> {
        let clients = federation.clients();
        let participants = config.participants_of(clients)?;
        refuse_idle_clients(federation.as_ref(), config.validation.fraction)?;
        if config.privacy.is_on() && federation.pools_rows() {
            let of_table = federation.table_encoding().is_some_and(|encoding| !encoding.is_plain());
            let scaled = federation.input_scaling().is_some() || federation.target_scaling().is_some();
            let why = if of_table && !scaled { AGREED } else { POOLED };
            return Err(ConfigError::value("privacy.noise", config.privacy.noise, why).into());
        }
        let (layout, procedure) = (client.network().layout(), client.procedure());
        let server = Server::new(config, procedure, layout, client.initial(), clients, participants)?;
        let executor = make(&client)?;
        Ok(Self {
            config: config.clone(),
            federation,
            client,
            executor,
            streams: Streams::new(config.seed),
            server,
            store: Box::new(MemoryStore::default()),
        })
    }

    /// From now on what clients keep is in this store: before the first round.
    pub fn set_client_store(&mut self, store: Box<dyn ClientStore>) {
        self.store = store;
    }

    /// What all clients have in common.
    #[must_use]
    pub const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The data.
    #[must_use]
    pub fn federation(&self) -> &dyn Federation {
        self.federation.as_ref()
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Each mode's network as a client that never took part would start it: the initial parameters, and the newest
    /// shared part.
    ///
    /// # Errors
    /// None in a simulation, whose server and clients are made for each other.
    pub fn global_parameters(&self) -> Result<Vec<Parameters>, ClientError> {
        let modes = self.server.personal_download().modes;
        modes.iter().map(|shared| self.client.global_parameters(shared)).collect()
    }

    /// The personal model of a client that joins after training, from its own data alone. `client` is the key of its
    /// random draws: a number that no other client has.
    ///
    /// Cost: F epochs of tuning and one posterior; the federation is not touched.
    ///
    /// # Errors
    /// Training that diverged; a posterior that cannot be computed; a lost state of a client that took part.
    pub fn join(&self, client: usize, data: &LocalData) -> Result<PersonalModel, JoinError> {
        let kept = self.store.get(client)?;
        Ok(self.client.join(client, &self.server.personal_download(), kept.as_ref(), data)?)
    }

    /// Carries out work of these clients, from what the server tells and the client kept. `each` has the outcomes as
    /// they come, one for each client: whom the executor lost did not answer ([`ClientError::NoAnswer`]), and what it
    /// returns beyond that is ignored. An error of its own ends the work.
    fn run_tasks(
        &self,
        clients: &[usize],
        downloads: impl Into<Downloads>,
        work: impl Fn(usize) -> Work + Send + Sync,
        mut each: impl FnMut(Outcome) -> Result<(), SimulationError>,
    ) -> Result<(), SimulationError> {
        let lost: Mutex<Option<StoreError>> = Mutex::new(None);
        let downloads = downloads.into();
        let task = |&client: &usize| match self.store.get(client) {
            Ok(kept) => {
                let download = Arc::clone(downloads.of(kept.as_ref()));
                Some(Task { client, work: work(client), download, kept })
            }
            Err(error) => {
                *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        };
        let mut failed = None;
        let mut waiting: BTreeSet<usize> = clients.iter().copied().collect();
        // Fused: where one client's state is lost, no thread takes another task.
        self.executor.run(&mut clients.iter().map_while(task).fuse(), &mut |outcome| {
            if !waiting.remove(&outcome.client) {
                tracing::warn!(client = outcome.client, "the executor returned an unexpected outcome");
                return ControlFlow::Continue(());
            }
            match each(outcome) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = lost.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.into());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        waiting
            .into_iter()
            .try_for_each(|client| each(Outcome { client, result: Err(ClientError::NoAnswer) }))
    }
}

/// What clients receive: all the same, or those that have kept nothing so far something else.
#[derive(Clone)]
struct Downloads {
    usual: Arc<Download>,
    first: Option<Arc<Download>>,
}

impl Downloads {
    fn of(&self, kept: Option<&Parameters>) -> &Arc<Download> {
        self.first.as_ref().filter(|_| kept.is_none()).unwrap_or(&self.usual)
    }
}

impl From<&Arc<Download>> for Downloads {
    fn from(download: &Arc<Download>) -> Self {
        Self { usual: Arc::clone(download), first: None }
    }
}

/// Why data and privacy do not go together.
const POOLED: &str = "this dataset scales its values by the rows of all clients together, which would become known \
                      without noise; use 0, or data whose scales are fixed beforehand";

/// Why the encoding of a table and privacy do not go together.
const AGREED: &str = "categories, dates, medians and columns left out of this table follow from the rows of all clients \
                      together, and would become known without noise; use 0, or a table of numbers without missing values \
                      (data.files.strict=true names the first cell that is none)";

/// Why a client cannot join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No model can be fitted to its data.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What it kept cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What cannot fit into memory is refused before any of it is taken.
fn refuse_too_large(config: &Checked, federation: &dyn Federation) -> Result<(), SimulationError> {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if config.threads == 0 { cores() } else { config.threads };
    let estimate = MemoryEstimate::of(config, federation, threads)?;
    match crate::memory::available() {
        Some(available) => Ok(estimate.check(available)?),
        None => Ok(()),
    }
}

/// Every client must have something to learn from once its held-out share is cut off.
fn refuse_idle_clients(federation: &dyn Federation, fraction: f64) -> Result<(), SimulationError> {
    for client in 0..federation.clients() {
        let count = federation.count(client, Split::Train);
        if count == 0 || (count as f64 * fraction).floor() as usize >= count {
            let reason = format!("it has {count}, and validation.fraction = {fraction}");
            return Err(SimulationError::NothingToLearn { client, reason });
        }
    }
    Ok(())
}
