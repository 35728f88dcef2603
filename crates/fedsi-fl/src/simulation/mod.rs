//! A whole federation in one process.

mod evaluate;
mod round;

pub use evaluate::Evaluated;

use std::sync::Arc;

use fedsi_data::{Federation, Split, Task};
use fedsi_nn::{Loss, Network};
use fedsi_random::{Purpose, SERVER, Streams};

use crate::aggregate::{Aggregation, Shared, SpreadAverage};
use crate::calibrate;
use crate::config::Checked;
use crate::executor::CpuExecutor;
use crate::infer::Inference;
use crate::methods::{Phase, Procedure};
use crate::personal::PersonalStore;
use crate::server::Server;
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
    initial: Vec<f32>,
    server: Server,
    personal: PersonalStore,
    /// The prior variance of personal models that the federation chose.
    chosen: Option<f64>,
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
        let initial: Vec<f32> = network.initialise(&mut streams.stream(Purpose::Initialisation, SERVER, 0));
        let procedure = (config.method().declare)(config);
        let loss = match task {
            Task::Classification { .. } => Loss::CrossEntropy,
            // Targets are standardised, and the noise changes no minimum; where there is a prior, its weight knows.
            Task::Regression { .. } => Loss::Gaussian { noise: 1.0 },
        };
        let values = initial[procedure.shared.range(network.layout())].to_vec();
        let gaussian = procedure.gaussian.as_ref();
        let aggregation = Aggregation {
            weighting: config.federation.weighting,
            spread: gaussian.map_or(SpreadAverage::Deviation, |gaussian| gaussian.spread),
            unselected: gaussian.map_or(0.0, |gaussian| gaussian.alpha),
            every: gaussian.map_or(1, |gaussian| gaussian.every),
        };
        let shared = match gaussian {
            Some(gaussian) => Shared::gaussian(values, gaussian.alpha),
            None => Shared::point(values),
        };
        let server = Server::new(shared, aggregation, config.federation.quorum);
        let trade = Trade::new(network, loss, config.training.clone(), config.model.noise, streams);
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

    /// The network as a client that never took part would start it: the initial parameters, and the newest
    /// shared part.
    #[must_use]
    pub fn global_parameters(&self) -> Vec<f32> {
        let mut parameters = self.initial.clone();
        parameters[self.procedure.shared.range(self.network().layout())]
            .copy_from_slice(&self.server.shared().values);
        parameters
    }

    /// The server's variance of every parameter, infinite where it holds none; none for point values.
    fn global_variance(&self) -> Option<Arc<[f32]>> {
        let layout = self.network().layout();
        let mut all = vec![f32::INFINITY; layout.len()];
        all[self.procedure.shared.range(layout)].copy_from_slice(self.server.shared().variance.as_ref()?);
        Some(all.into())
    }

    /// Work for each of these clients, from the newest shared part and what the client kept.
    fn cohort(
        &self,
        clients: &[usize],
        purpose: Purpose,
        phases: &[Phase],
        inference: Option<&Inference>,
    ) -> Vec<LocalWork> {
        let (global, variance) = (self.global_parameters(), self.global_variance());
        let round = self.server.round() + u64::from(purpose == Purpose::Batches);
        let kept = self.procedure.kept.range(self.network().layout());
        let work = clients.iter().map(|&client| {
            let mut parameters = global.clone();
            if let Some(own) = self.personal.get(client) {
                parameters[kept.clone()].copy_from_slice(own);
            }
            LocalWork {
                client,
                round,
                purpose,
                parameters,
                variance: variance.clone(),
                phases: phases.to_vec(),
                inference: inference.cloned(),
            }
        });
        work.collect()
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
