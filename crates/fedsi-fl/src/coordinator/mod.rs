//! The server's end of a federation, round by round: who trains, what they receive, what becomes of what they send. It
//! knows no data: clients' work is an executor's, on this machine or at sites of their own.

mod faults;
mod record;
mod round;
mod score;
mod snapshot;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use fedsi_random::Streams;

pub use faults::{Arrival, Fault, RoundFaults};
pub use record::{RoundRecord, RoundSeconds, SubnetworkRecord, Tally};
pub use score::{ClientTestScores, FederationScores};
pub use snapshot::{Snapshot, SnapshotError};

use crate::client::{Client, ClientError};
use crate::client_store::{ClientStore, MemoryStore, StoreError};
use crate::error::SimulationError;
use crate::executor::{Executor, Outcome, Task, Work};
use crate::parameters::{Kept, Parameters};
use crate::registry::Checked;
use crate::server::Server;
use crate::wire::Download;

/// The server of a federation and everything that it needs to lead it: its state, what clients keep or which version of
/// it, and who carries out their work.
pub struct Coordinator {
    config: Checked,
    clients: usize,
    client: Arc<Client>,
    executor: Box<dyn Executor>,
    streams: Streams,
    server: Server,
    store: Box<dyn ClientStore>,
}

impl Coordinator {
    /// A federation of so many clients before its first round. `client` is what they have in common, made for this
    /// config; what they keep is held in memory, but where [`Self::set_client_store`] says otherwise.
    ///
    /// # Errors
    /// More participants than clients; with privacy, a method that would tell something without noise.
    pub fn new(
        config: &Checked,
        clients: usize,
        client: Arc<Client>,
        executor: Box<dyn Executor>,
    ) -> Result<Self, SimulationError> {
        let participants = config.participants_of(clients)?;
        let (layout, procedure) = (client.network().layout(), client.procedure());
        let server = Server::new(config, procedure, layout, client.initial(), clients, participants)?;
        Ok(Self {
            config: config.clone(),
            clients,
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

    /// How many clients there are.
    #[must_use]
    pub const fn clients(&self) -> usize {
        self.clients
    }

    /// What all clients have in common.
    #[must_use]
    pub const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// What a client kept, or its version; none if it never took part.
    ///
    /// # Errors
    /// A state that is gone or damaged.
    pub fn kept(&self, client: usize) -> Result<Option<Kept>, StoreError> {
        self.store.get(client)
    }

    /// Each mode's network as a client that never took part would start it: the initial parameters, and the newest
    /// shared part.
    ///
    /// # Errors
    /// None here: server and clients are made for each other.
    pub fn global_parameters(&self) -> Result<Vec<Parameters>, ClientError> {
        let modes = self.server.personal_download().modes;
        modes.iter().map(|shared| self.client.global_parameters(shared)).collect()
    }

    /// Carries out work of these clients, from what the server tells and the client kept. `each` has the outcomes as
    /// they come, one for each client: whom the executor lost did not answer ([`ClientError::NoAnswer`]), and what it
    /// returns beyond that is ignored. An error of its own ends the work.
    pub(crate) fn run_tasks(
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
                let needed_since = self.store.needed_since(client);
                Some(Task { client, work: work(client), download, kept, needed_since })
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

    /// Forgets what clients kept whose sites have lost it: they start anew when they are asked next.
    fn forget(&mut self, clients: impl IntoIterator<Item = usize>) {
        for client in clients {
            tracing::warn!(client, "its site has lost what it kept: it starts anew when it takes part again");
            self.store.forget(client);
        }
    }
}

/// What clients receive: all the same, or those that have kept nothing so far something else.
#[derive(Clone)]
pub(crate) struct Downloads {
    usual: Arc<Download>,
    first: Option<Arc<Download>>,
}

impl Downloads {
    fn of(&self, kept: Option<&Kept>) -> &Arc<Download> {
        self.first.as_ref().filter(|_| kept.is_none()).unwrap_or(&self.usual)
    }
}

impl From<&Arc<Download>> for Downloads {
    fn from(download: &Arc<Download>) -> Self {
        Self { usual: Arc::clone(download), first: None }
    }
}
