//! The local work of one client: which parameters it starts from, which phases it goes through. Work is data,
//! never a closure, so that it can be carried out here, on a GPU, or on a site far away.

mod bench;
mod phases;

use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{Samples, Targets, Task};
use fedsi_nn::{Loss, MeanField, Network, Tape};
use fedsi_random::{Purpose, Streams};

pub use bench::{Busy, Workbench};

use crate::config::{Config, TrainingConfig};
use crate::infer::{Evidence, Inference, InferenceError, Inferred};
use crate::methods::{Objective, Phase};
use crate::part::Part;
use crate::state::State;
use phases::AtWork;

/// Smallest standard deviation of regression noise, in units of the standardised targets: a client that fits
/// its samples exactly is not certain of the next one.
const SMALLEST_NOISE: f64 = 1e-3;

/// A client's training data, divided into what it learns from and what it is scored on while training.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalData {
    /// What it learns from.
    pub train: Samples,
    /// What was held out.
    pub held_out: Samples,
    /// What is set aside until the prior variance of personal models is chosen.
    pub aside: Samples,
}

impl LocalData {
    /// Data of which nothing is held out.
    #[must_use]
    pub fn all(train: Samples) -> Self {
        let (held_out, aside) = (train.select(&[]), train.select(&[]));
        Self { train, held_out, aside }
    }
}

/// A client's work in a round, or its personalisation at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalWork {
    /// Who.
    pub client: usize,
    /// When: with the client and purpose, the key of its random draws.
    pub round: u64,
    /// [`Purpose::Batches`] in a round, [`Purpose::Tuning`] at the end.
    pub purpose: Purpose,
    /// What it starts from.
    pub start: State,
    /// The server's Gaussian; none where it holds point values.
    pub server: Option<Arc<ServerGaussian>>,
    /// What to do, in order.
    pub phases: Vec<Phase>,
    /// What to infer after that.
    pub inference: Option<Inference>,
}

/// The server's Gaussian as a client sees it: over all parameters of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerGaussian {
    /// Means; where the server holds nothing, the initial values.
    pub mean: Vec<f32>,
    /// Variances, infinite where it knows nothing.
    pub variance: Vec<f32>,
}

impl ServerGaussian {
    /// As independent normals.
    fn distribution(&self) -> MeanField<f32> {
        let deviation = self.variance.iter().map(|variance| variance.sqrt()).collect();
        MeanField { mean: self.mean.clone(), deviation }
    }
}

/// What a client's work led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// Who.
    pub client: usize,
    /// What it knows after the last phase.
    pub state: State,
    /// Its copy of the server's distribution, where that followed its own: what it sends back.
    pub moved: Option<MeanField<f32>>,
    /// Mean loss a sample over the last epoch; none where nothing was trained.
    pub loss: Option<f64>,
    /// Training samples the client has.
    pub samples: usize,
    /// Its posterior, where the work asks for one.
    pub posterior: Option<Result<Inferred, InferenceError>>,
}

/// What all clients' work has in common.
#[derive(Clone, Debug)]
pub struct Trade {
    /// The network.
    pub network: Network,
    head: Network,
    /// What is minimised.
    pub loss: Loss,
    training: TrainingConfig,
    /// Standard deviation of regression noise; 0: the residuals say.
    noise: f64,
    streams: Streams,
}

impl Trade {
    /// Training of this network by these settings.
    #[must_use]
    pub fn new(network: Network, loss: Loss, training: TrainingConfig, noise: f64, streams: Streams) -> Self {
        let head = network.head();
        Self { network, head, loss, training, noise, streams }
    }

    /// Training of this network as a run's config says.
    #[must_use]
    pub fn of_run(network: Network, task: Task, config: &Config) -> Self {
        let loss = match task {
            Task::Classification { .. } => Loss::CrossEntropy,
            // Targets are standardised, and the noise changes no minimum; where there is a prior, its weight knows.
            Task::Regression { .. } => Loss::Gaussian { noise: 1.0 },
        };
        Self::new(network, loss, config.training.clone(), config.model.noise, Streams::new(config.seed))
    }

    /// The streams of the run.
    #[must_use]
    pub const fn streams(&self) -> Streams {
        self.streams
    }

    /// Carries out a client's work on its training data. The result depends on the work, the data and the run's
    /// seed alone: not on the bench, nor on who else is at work.
    #[must_use]
    pub fn carry_out(&self, work: LocalWork, data: &LocalData, bench: &mut Workbench) -> Trained {
        let started = Instant::now();
        let LocalWork { client, round, purpose, start, server, phases, inference } = work;
        let samples = &data.train;
        let weighs = |phase: &Phase| !matches!(phase.objective, Objective::Point { .. });
        let known = server.is_some() || phases.iter().any(weighs);
        let noise = if known { self.noise(&start.values, data) } else { Vec::new() };
        let squares: f64 = noise.iter().map(|noise| noise * noise).sum();
        let mut client_at_work = AtWork {
            trade: self,
            samples,
            server: server.as_deref(),
            noise: if noise.is_empty() { 1.0 } else { squares / noise.len() as f64 },
            state: start,
            moved: None,
            fresh: 0,
            rng: self.streams.stream(purpose, client as u64, round),
        };
        let mut loss = None;
        for &phase in phases.iter().filter(|phase| phase.epochs > 0 && phase.part != Part::Nothing) {
            loss = Some(client_at_work.phase(phase, bench));
        }
        let AtWork { state, moved, .. } = client_at_work;
        let trained = started.elapsed().as_secs_f64();
        let posterior = inference.map(|inference| {
            let noise = self.noise(&state.values, data);
            let variance = server.as_ref().map(|server| server.variance.as_slice());
            let evidence = self.evidence(&state.values, variance, samples, &noise);
            let selection = match purpose {
                Purpose::Tuning => Purpose::PersonalSelection,
                _ => Purpose::Selection,
            };
            inference.infer(&evidence, &mut self.streams.stream(selection, client as u64, round))
        });
        let inferred = if posterior.is_some() { started.elapsed().as_secs_f64() - trained } else { 0.0 };
        bench.busy = Busy { train: trained, posterior: inferred };
        Trained { client, state, moved, loss, samples: samples.count, posterior }
    }

    /// What a posterior around these parameters needs to know.
    pub(crate) const fn evidence<'a>(
        &'a self,
        parameters: &'a [f32],
        variance: Option<&'a [f32]>,
        samples: &'a Samples,
        noise: &'a [f64],
    ) -> Evidence<'a> {
        Evidence { network: &self.network, parameters, variance, samples, noise }
    }

    /// Standard deviation of the noise of each target: as the config says, or the root mean square of the
    /// residuals, on held-out data where there is some. Empty for classes.
    #[must_use]
    pub fn noise(&self, parameters: &[f32], data: &LocalData) -> Vec<f64> {
        let known = if data.held_out.count > 0 { &data.held_out } else { &data.train };
        let Targets::Values(targets) = &known.targets else { return Vec::new() };
        let width = self.network.outputs();
        if self.noise > 0.0 {
            return vec![self.noise; width];
        }
        let outputs = self.outputs(parameters, &known.inputs);
        let mut squares = vec![0.0; width];
        for (index, (&output, &target)) in outputs.iter().zip(targets).enumerate() {
            squares[index % width] += f64::from(output - target).powi(2);
        }
        let root = |square: f64| (square / known.count.max(1) as f64).sqrt().max(SMALLEST_NOISE);
        squares.into_iter().map(root).collect()
    }

    /// What the head sees of every sample.
    fn features(&self, parameters: &[f32], samples: &Samples) -> Vec<f32> {
        self.features_of(parameters, &samples.inputs)
    }

    /// What the head sees of every row of `inputs`.
    #[must_use]
    pub fn features_of(&self, parameters: &[f32], inputs: &[f32]) -> Vec<f32> {
        forward_in_batches(&self.network, parameters, inputs, Tape::forward_body)
    }

    /// The network's outputs for every row of `inputs`.
    #[must_use]
    pub fn outputs(&self, parameters: &[f32], inputs: &[f32]) -> Vec<f32> {
        forward_in_batches(&self.network, parameters, inputs, Tape::forward)
    }

    /// The outputs of a head for every row of features.
    #[must_use]
    pub fn head_outputs(&self, head: &[f32], features: &[f32]) -> Vec<f32> {
        forward_in_batches(&self.head, head, features, Tape::forward)
    }
}

/// The samples' targets as the layers take them.
#[must_use]
pub fn targets(samples: &Samples) -> fedsi_nn::Targets<'_, f32> {
    match &samples.targets {
        Targets::Classes(labels) => fedsi_nn::Targets::Classes(labels),
        Targets::Values(values) => fedsi_nn::Targets::Values(values),
    }
}

/// Rows of a forward pass without gradients.
const FORWARD_BATCH: usize = 128;

fn forward_in_batches(
    network: &Network,
    parameters: &[f32],
    inputs: &[f32],
    pass: for<'t> fn(&'t mut Tape<f32>, &Network, &[f32]) -> &'t [f32],
) -> Vec<f32> {
    let width = network.inputs();
    let mut tape = Tape::new(network, FORWARD_BATCH.min(inputs.len() / width).max(1));
    let mut outputs = Vec::new();
    for rows in inputs.chunks(FORWARD_BATCH * width) {
        tape.inputs_mut(network, rows.len() / width).copy_from_slice(rows);
        outputs.extend_from_slice(pass(&mut tape, network, parameters));
    }
    outputs
}
