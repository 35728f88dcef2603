//! A whole federation in one process.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{Federation, Split, Task};
use fedsi_nn::{Loss, Network};
use fedsi_random::{Purpose, SERVER, Streams};

use crate::config::Checked;
use crate::executor::CpuExecutor;
use crate::message::Upload;
use crate::methods::{Phase, Procedure, Workers};
use crate::personal::PersonalStore;
use crate::predict::{Predictions, predict, validate};
use crate::record::{LeftOut, RoundRecord, RoundSeconds, Traffic, Validation};
use crate::server::{Server, draw_participants, is_finite};
use crate::work::{LocalWork, Trade, Trained};
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
}

/// A client at the end of a run.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Who.
    pub client: usize,
    /// Its personal model.
    pub parameters: Vec<f32>,
    /// Its test samples.
    pub samples: usize,
    /// What that model says of them; nothing where it diverged.
    pub predictions: Predictions,
}

/// What a client hands back after its local work, made on the client's own thread.
struct ClientReturn {
    upload: Upload,
    kept: Vec<f32>,
    validation: Option<Validation>,
}

impl ClientReturn {
    fn new(
        trained: Trained,
        round: u64,
        shared: Range<usize>,
        kept: Range<usize>,
        validation: Option<Validation>,
    ) -> Self {
        let Trained { client, parameters, loss, samples } = trained;
        let kept = parameters[kept].to_vec();
        let shared = if shared.len() == parameters.len() { parameters } else { parameters[shared].to_vec() };
        Self { upload: Upload { round, client, samples, loss, shared }, kept, validation }
    }
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
            // Targets are standardised, and the noise changes no minimum.
            Task::Regression { .. } => Loss::Gaussian { noise: 1.0 },
        };
        let shared = initial[procedure.shared.range(network.layout())].to_vec();
        let server = Server::new(shared, config.federation.weighting, config.federation.quorum);
        let trade = Trade::new(network, loss, config.training.clone(), streams);
        let held_out = config.validation.fraction;
        let executor = CpuExecutor::new(trade, Arc::clone(&federation), held_out, streams, config.threads)?;
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

    /// The network as a client that never took part would start it: the initial parameters, and the newest
    /// shared part.
    #[must_use]
    pub fn global_parameters(&self) -> Vec<f32> {
        let mut parameters = self.initial.clone();
        parameters[self.procedure.shared.range(self.network().layout())]
            .copy_from_slice(self.server.shared());
        parameters
    }

    /// Work for each of these clients, from the newest shared part and what the client kept.
    fn cohort(&self, clients: &[usize], round: u64, purpose: Purpose, phases: &[Phase]) -> Vec<LocalWork> {
        let global = self.global_parameters();
        let kept = self.procedure.kept.range(self.network().layout());
        let work = clients.iter().map(|&client| {
            let mut parameters = global.clone();
            if let Some(own) = self.personal.get(client) {
                parameters[kept.clone()].copy_from_slice(own);
            }
            LocalWork { client, round, purpose, parameters, phases: phases.to_vec() }
        });
        work.collect()
    }

    /// One round: draw, work, judge, average, remember.
    ///
    /// # Errors
    /// Too few usable updates; the state is then that of the round before.
    pub fn round(&mut self) -> Result<RoundRecord, RunError> {
        let started = Instant::now();
        let round = self.server.round() + 1;
        let clients = self.federation.clients();
        let participants = match self.procedure.workers {
            Workers::Drawn => draw_participants(&self.streams, round, clients, self.participants),
            Workers::Everyone => (0..clients).collect(),
        };
        let cohort = self.cohort(&participants, round, Purpose::Batches, &self.procedure.local);
        let (trade, task) = (self.executor.trade(), self.federation.task());
        let layout = trade.network.layout();
        let (shared, kept) = (self.procedure.shared.range(layout), self.procedure.kept.range(layout));
        let returns = self.executor.each(cohort, |trained, data| {
            let validation = validate(trade, task, &trained.parameters, &data.held_out);
            ClientReturn::new(trained, round, shared.clone(), kept.clone(), validation)
        });
        let train = started.elapsed().as_secs_f64();

        let validations: Vec<_> =
            returns.iter().map(|client| (client.upload.client, client.validation)).collect();
        let mut broken = Vec::new();
        let (mut uploads, mut parts) = (Vec::new(), Vec::new());
        for ClientReturn { upload, kept, .. } in returns {
            if is_finite(&kept) {
                uploads.push(upload);
                parts.push(kept);
            } else {
                let reason = "its personal part is not finite".to_owned();
                broken.push(LeftOut { client: upload.client, reason });
            }
        }
        let bytes = self.traffic(&participants, &uploads);
        let left_out = self.server.complete(&uploads, broken)?;
        for out in &left_out {
            tracing::warn!(round, client = out.client, "left out of the round: {}", out.reason);
        }
        let used = |client: usize| !left_out.iter().any(|out| out.client == client);
        let validation =
            pool_validations(validations.iter().filter(|(client, _)| used(*client)).filter_map(|one| one.1));
        let mut losses = Vec::with_capacity(uploads.len());
        for (upload, part) in uploads.iter().zip(parts).filter(|(upload, _)| used(upload.client)) {
            losses.extend(upload.loss);
            if self.procedure.kept != Part::Nothing {
                self.personal.put(upload.client, part);
            }
        }
        let aggregate = started.elapsed().as_secs_f64() - train;
        Ok(RoundRecord {
            round,
            train_loss: (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64),
            validation,
            seconds: RoundSeconds { train, posterior: 0.0, aggregate },
            participants,
            left_out,
            bytes,
        })
    }

    /// The bytes a round's messages take; none where nothing is shared.
    fn traffic(&self, participants: &[usize], uploads: &[Upload]) -> Traffic {
        if self.procedure.shared == Part::Nothing {
            return Traffic::default();
        }
        Traffic {
            up: uploads.iter().map(|upload| upload.encoded_len() as u64).sum(),
            down: participants.len() as u64 * self.server.download().encoded_len() as u64,
        }
    }

    /// Personalises every client and predicts its test samples. `save` sees each client on the thread that
    /// worked for it; then `each` has them one by one, in their order. Memory: a few clients at a time.
    ///
    /// A client whose model predicts no numbers is named in the log, and has no predictions.
    ///
    /// # Errors
    /// What `save` says; no client whose model predicts numbers.
    pub fn evaluate(
        &self,
        save: impl Fn(&Evaluated) -> Result<(), RunError> + Sync,
        mut each: impl FnMut(Evaluated),
    ) -> Result<(), RunError> {
        let clients: Vec<usize> = (0..self.federation.clients()).collect();
        let (trade, task) = (self.executor.trade(), self.federation.task());
        let (noise, scaling) = (self.config.model.noise, self.federation.target_scaling());
        let round = self.server.round();
        let mut diverging = 0;
        for batch in clients.chunks(4 * self.executor.threads()) {
            let cohort = self.cohort(batch, round, Purpose::Tuning, &self.procedure.personalise);
            let evaluated = self.executor.each(cohort, |Trained { client, parameters, .. }, data| {
                let test = self.federation.samples(client, Split::Test);
                let mut predictions = predict(trade, task, &parameters, noise, data, &test, scaling);
                let diverged = !predictions.are_finite();
                if diverged {
                    predictions = Predictions::none(task);
                }
                let evaluated = Evaluated { client, parameters, samples: test.count, predictions };
                save(&evaluated).map(|()| (evaluated, diverged))
            });
            for outcome in evaluated {
                let (client, diverged) = outcome?;
                if diverged {
                    tracing::warn!(
                        client = client.client,
                        "its personal model predicts values that are not finite"
                    );
                    diverging += 1;
                }
                each(client);
            }
        }
        if diverging == clients.len() {
            return Err(RunError::Diverged);
        }
        Ok(())
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

/// The participants' validations as one, each counting by its samples.
fn pool_validations(validations: impl Iterator<Item = Validation>) -> Option<Validation> {
    let known: Vec<Validation> = validations.collect();
    let samples: usize = known.iter().map(|validation| validation.samples).sum();
    let mean = |of: fn(&Validation) -> Option<f64>| -> Option<f64> {
        let sum: Option<f64> = known.iter().map(|one| Some(of(one)? * one.samples as f64)).sum();
        sum.map(|sum| sum / samples as f64)
    };
    let rmse = mean(|one| one.rmse.map(|rmse| rmse * rmse)).map(f64::sqrt);
    (samples > 0).then(|| Validation {
        samples,
        accuracy: mean(|one| one.accuracy),
        nll: mean(|one| one.nll),
        rmse,
    })
}
