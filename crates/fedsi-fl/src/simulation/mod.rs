//! A whole federation in one process: the same client and server as in a real one, with faults on request.

mod evaluate;
mod validate;

use std::sync::Arc;

use fedsi_data::{Federation, Split};

pub use evaluate::{ClientEvaluation, Evaluation, EvaluationRequest};

use crate::client::{Client, ClientError, LocalData, PersonalModel};
use crate::client_store::{ClientStore, StoreError};
use crate::config::ConfigError;
use crate::coordinator::{Coordinator, RoundRecord, Snapshot, SnapshotError};
use crate::cost::MemoryEstimate;
use crate::error::SimulationError;
use crate::executor::{CpuExecutor, Executor, ExecutorError, Worker};
use crate::network::ClientNetwork;
use crate::parameters::{Kept, Parameters};
use crate::registry::Checked;
use crate::server::Server;

/// A coordinator beside the data of its clients, which can be evaluated here.
pub struct Simulation {
    coordinator: Coordinator,
    federation: Arc<dyn Federation>,
    /// Rounds that the config asks for.
    rounds: usize,
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
        refuse_too_large(config, federation.as_ref(), config.threads)?;
        let (shape, task) = (federation.input_shape(), federation.task());
        let client = Client::of_config(config, shape, task, federation.target_scaling().cloned())?;
        Self::with_client(config, federation, Arc::new(client), make)
    }

    /// The same with a network and an executor that works on up to `workers` clients at a time.
    ///
    /// # Errors
    /// As [`Self::with_executor`].
    pub fn with_network(
        config: &Checked,
        federation: Arc<dyn Federation>,
        network: Arc<dyn ClientNetwork>,
        workers: usize,
        make: impl FnOnce(&Arc<Client>) -> Result<Box<dyn Executor>, ExecutorError>,
    ) -> Result<Self, SimulationError> {
        refuse_too_large(config, federation.as_ref(), workers)?;
        let (task, scaling) = (federation.task(), federation.target_scaling().cloned());
        let client = Client::new(config, config.procedure(), network, task, scaling, config.rules());
        let client = client.map_err(ConfigError::Rule)?;
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
        config.participants_of(clients)?;
        refuse_idle_clients(federation.as_ref(), config.validation.fraction)?;
        config.expect_unpooled(federation.as_ref())?;
        config.expect_classes(federation.task())?;
        let executor = make(&client)?;
        let coordinator = Coordinator::new(config, clients, client, executor)?;
        Ok(Self { coordinator, federation, rounds: config.rounds })
    }

    /// From now on what clients keep is in this store: before the first round.
    pub fn set_client_store(&mut self, store: Box<dyn ClientStore>) {
        self.coordinator.set_client_store(store);
    }

    /// What leads the federation, without its data.
    #[must_use]
    pub const fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// The same, to train rounds with.
    pub const fn coordinator_mut(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    /// What all clients have in common.
    #[must_use]
    pub const fn client(&self) -> &Arc<Client> {
        self.coordinator.client()
    }

    /// The data.
    #[must_use]
    pub fn federation(&self) -> &dyn Federation {
        self.federation.as_ref()
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        self.coordinator.server()
    }

    /// One round: see [`Coordinator::round`].
    ///
    /// # Errors
    /// Too few usable updates; the state is then that of the round before.
    pub fn round(&mut self) -> Result<RoundRecord, SimulationError> {
        self.coordinator.round()
    }

    /// The federation as it is: see [`Coordinator::snapshot`].
    ///
    /// # Errors
    /// Clients' state that cannot be made durable.
    pub fn snapshot(&mut self) -> Result<Snapshot, SimulationError> {
        self.coordinator.snapshot()
    }

    /// Continues from a snapshot of the same run: see [`Coordinator::restore`].
    ///
    /// # Errors
    /// A snapshot of another run.
    pub fn restore(&mut self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.coordinator.restore(snapshot)
    }

    /// Each mode's network as a client that never took part would start it: see [`Coordinator::global_parameters`].
    ///
    /// # Errors
    /// None in a simulation, whose server and clients are made for each other.
    pub fn global_parameters(&self) -> Result<Vec<Parameters>, ClientError> {
        self.coordinator.global_parameters()
    }

    /// The personal model of a client that joins after training, from its own data alone. `client` is the key of its
    /// random draws: a number that no other client has.
    ///
    /// Cost: F epochs of tuning and one posterior; the federation is not touched.
    ///
    /// # Errors
    /// Training that diverged; a posterior that cannot be computed; a lost state of a client that took part.
    pub fn join(&self, client: usize, data: &LocalData) -> Result<PersonalModel, JoinError> {
        let kept = self.coordinator.kept(client)?;
        if let Some(Kept::AtSite { round }) = kept {
            return Err(ClientError::LostState { expected: round, found: None }.into());
        }
        let kept = kept.as_ref().and_then(Kept::parameters);
        Ok(self.client().join(client, &self.server().personal_download(), kept, data)?)
    }
}

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
fn refuse_too_large(
    config: &Checked,
    federation: &dyn Federation,
    workers: usize,
) -> Result<(), SimulationError> {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = if workers == 0 { cores() } else { workers };
    let estimate = MemoryEstimate::of(config, federation, workers)?;
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
