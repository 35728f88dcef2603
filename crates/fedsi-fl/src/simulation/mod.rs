//! A whole federation in one process.

mod evaluate;
mod policy;
mod round;
mod snapshot;
mod validate;

pub use evaluate::Evaluated;
pub use snapshot::Snapshot;

use std::sync::Arc;

use fedsi_data::{Federation, Split};
use fedsi_nn::Network;
use fedsi_random::{Purpose, SERVER, Streams};
use rand_distr::{Distribution as _, StandardNormal};

use crate::aggregate::{Shared, SpreadAverage};
use crate::calibrate;
use crate::config::Checked;
use crate::executor::CpuExecutor;
use crate::host::Start;
use crate::infer::Inference;
use crate::methods::{MeanField, Phase, Procedure, Uncertainty};
use crate::personal::PersonalStore;
use crate::privacy::Accountant;
use crate::server::Server;
use crate::state::State;
use crate::work::{LocalWork, Trade};
use crate::{Part, RunError};

/// Server, clients and everything between them. Holds the server's state, the clients' personal parts, and no
/// other client state.
pub struct Simulation {
    config: Checked,
    procedure: Procedure,
    federation: Arc<dyn Federation>,
    executor: CpuExecutor,
    streams: Streams,
    participants: usize,
    initial: State,
    server: Server,
    personal: PersonalStore,
    /// The prior variance of personal models that the federation chose.
    chosen: Option<f64>,
    /// Counts what the rounds tell of a client, where there is privacy.
    accountant: Option<Accountant>,
}

impl Simulation {
    /// A federation before its first round.
    ///
    /// # Errors
    /// A network that does not fit the data, more participants than clients, a client that holds out all it has.
    pub fn new(config: &Checked, federation: Arc<dyn Federation>) -> Result<Self, RunError> {
        let task = federation.task();
        let network = config.network(federation.input_shape(), task)?;
        let participants = config.participants_of(federation.clients())?;
        refuse_idle_clients(federation.as_ref(), config.validation.fraction)?;
        let streams = Streams::new(config.seed);
        let procedure = (config.method().declare)(config);
        let initial = initialise(&network, &procedure, streams);
        let State { values, .. } = initial.part(procedure.shared.range(network.layout()));
        let (shared, spread, every) = match &procedure.uncertainty {
            Uncertainty::Laplace(laplace) => {
                (Shared::gaussian(values, laplace.alpha), laplace.spread, laplace.every)
            }
            Uncertainty::MeanField(MeanField { initial_deviation, .. }) => {
                (Shared::gaussian(values, initial_deviation.powi(2)), SpreadAverage::Deviation, 1)
            }
            Uncertainty::None | Uncertainty::Samples(_) => {
                (Shared::point(values), SpreadAverage::Deviation, 1)
            }
        };
        let unselected = procedure.laplace().map_or(0.0, |laplace| laplace.alpha);
        let aggregation = policy::aggregation(config, streams, spread, unselected, every);
        let server = Server::new(shared, aggregation, policy::admission(config));
        let sampled = participants as f64 / federation.clients() as f64;
        let accountant = policy::accountant(config, procedure.shared, sampled);
        let trade = Trade::of_run(network, task, config);
        let held_out = config.validation.fraction;
        let mut executor =
            CpuExecutor::new(trade, Arc::clone(&federation), held_out, streams, config.threads)?;
        if procedure.calibrates() {
            executor.set_aside(calibrate::ASIDE);
        }
        Ok(Self {
            config: config.clone(),
            procedure,
            federation,
            executor,
            streams,
            participants,
            initial,
            server,
            personal: PersonalStore::default(),
            chosen: None,
            accountant,
        })
    }

    /// The network that is trained.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.executor.trade().network
    }

    /// The data.
    #[must_use]
    pub fn federation(&self) -> &dyn Federation {
        self.federation.as_ref()
    }

    /// The server's state.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// What travels.
    #[must_use]
    pub const fn shared_part(&self) -> Part {
        self.procedure.shared
    }

    /// The prior variance of personal models that the federation chose; none before it did, or where it is given.
    #[must_use]
    pub const fn chosen_prior_variance(&self) -> Option<f64> {
        self.chosen
    }

    /// What the shared part may tell of any one client at most, after the rounds so far; none without privacy, or where
    /// nothing is shared. Skipped rounds count too, to be on the safe side: it follows from their number alone.
    #[must_use]
    pub fn epsilon(&self) -> Option<f64> {
        self.accountant.as_ref().map(|accountant| accountant.epsilon(self.server.round()))
    }

    /// The network as a client that never took part would start it: the initial parameters, and the newest
    /// shared part.
    #[must_use]
    pub fn global_parameters(&self) -> Vec<f32> {
        self.start().state.values
    }

    /// What clients start from.
    fn start(&self) -> Start {
        let (layout, part) = (self.network().layout(), self.procedure.shared);
        Start::new(layout, part, &self.initial, self.server.shared(), self.server.round())
    }

    /// Work for each of these clients, from the newest shared part and what the client kept.
    fn cohort(
        &self,
        clients: &[usize],
        purpose: Purpose,
        phases: &[Phase],
        inference: Option<&Inference>,
    ) -> Result<Vec<LocalWork>, RunError> {
        let start = self.start();
        let kept = self.procedure.kept.range(self.network().layout());
        let work = clients.iter().map(|&client| {
            let own = self.personal.get(client)?;
            let own = own.as_deref().map(|own| (kept.clone(), own));
            Ok(start.work(client, purpose, own, phases, inference))
        });
        work.collect()
    }
}

/// The parameters before the first round: as the layers start them, or around 0 with a deviation each where the method
/// trains distributions.
fn initialise(network: &Network, procedure: &Procedure, streams: Streams) -> State {
    let mut rng = streams.stream(Purpose::Initialisation, SERVER, 0);
    let size = network.layout().len();
    match &procedure.uncertainty {
        Uncertainty::MeanField(MeanField { initial_mean, initial_deviation, .. }) => {
            let draw = |_| {
                let draw: f64 = StandardNormal.sample(&mut rng);
                (initial_mean * draw) as f32
            };
            let values = (0..size).map(draw).collect();
            State { values, deviation: vec![*initial_deviation as f32; size], samples: Vec::new() }
        }
        Uncertainty::None | Uncertainty::Laplace(_) | Uncertainty::Samples(_) => {
            State::point(network.initialise(&mut rng))
        }
    }
}

/// Every client must have something to learn from once its held-out share is cut off.
fn refuse_idle_clients(federation: &dyn Federation, fraction: f64) -> Result<(), RunError> {
    for client in 0..federation.clients() {
        let count = federation.count(client, Split::Train);
        if count == 0 || (count as f64 * fraction).floor() as usize >= count {
            let reason = format!("it has {count}, and validation.fraction = {fraction}");
            return Err(RunError::NothingToLearn { client, reason });
        }
    }
    Ok(())
}
