//! The local work of one client: which parameters it starts from, which phases it goes through. Work is data,
//! never a closure, so that it can be carried out here, on a GPU, or on a site far away.

use std::sync::Arc;
use std::time::Instant;

use fedsi_data::{Samples, Targets};
use fedsi_nn::{Loss, Network, Tape, Trainer};
use fedsi_random::{Purpose, Streams};
use rand::seq::SliceRandom as _;

use crate::config::TrainingConfig;
use crate::infer::{Evidence, Inference, InferenceError, Inferred};
use crate::methods::{Phase, Prior};
use crate::part::Part;

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
    /// All parameters to start from.
    pub parameters: Vec<f32>,
    /// The server's variance of every parameter, infinite where it knows nothing; none for point values.
    pub variance: Option<Arc<[f32]>>,
    /// What to do, in order.
    pub phases: Vec<Phase>,
    /// What to infer after that.
    pub inference: Option<Inference>,
}

/// What a client's work led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// Who.
    pub client: usize,
    /// All parameters, after the last phase.
    pub parameters: Vec<f32>,
    /// Mean loss a sample over the last epoch; none where nothing was trained.
    pub loss: Option<f64>,
    /// Training samples the client has.
    pub samples: usize,
    /// Its posterior, where the work asks for one.
    pub posterior: Option<Result<Inferred, InferenceError>>,
}

/// Memory for training, kept from one client to the next.
#[derive(Debug, Default)]
pub struct Workbench {
    benches: Vec<(Part, f64, Trainer<f32>)>,
    order: Vec<u32>,
    /// How long the last work took.
    pub busy: Busy,
}

/// How long a client's work took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// The phases.
    pub train: f64,
    /// The posterior.
    pub posterior: f64,
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

    /// The streams of the run.
    #[must_use]
    pub const fn streams(&self) -> Streams {
        self.streams
    }

    /// Carries out a client's work on its training data. The result depends on the work, the data and the run's
    /// seed alone: not on the bench, nor on who else is at work.
    ///
    /// A phase that trains the head alone computes the body's features once, and then costs no more than
    /// training a linear model.
    #[must_use]
    pub fn carry_out(&self, work: LocalWork, data: &LocalData, bench: &mut Workbench) -> Trained {
        let started = Instant::now();
        let LocalWork { client, round, purpose, mut parameters, variance, phases, inference } = work;
        let samples = &data.train;
        let mut rng = self.streams.stream(purpose, client as u64, round);
        let targets = targets(samples);
        let mut loss = None;
        // The loss takes the noise of regression to be 1: against the truth the prior weighs as much more.
        let noise = if variance.is_some() { self.noise(&parameters, data) } else { Vec::new() };
        let squares: f64 = noise.iter().map(|noise| noise * noise).sum();
        let noise = if noise.is_empty() { 1.0 } else { (squares / noise.len() as f64) as f32 };
        for phase in phases.iter().filter(|phase| phase.epochs > 0 && phase.part != Part::Nothing) {
            let alone = phase.part == Part::Head;
            let features;
            let (network, inputs, own) = if alone {
                features = self.features(&parameters, samples);
                (&self.head, &features, self.network.layout().head())
            } else {
                (&self.network, &samples.inputs, 0..parameters.len())
            };
            let batch = self.training.batch.min(samples.count);
            let (trainer, order) = bench.trainer(self, network, *phase, batch);
            order.clear();
            order.extend(0..samples.count as u32);
            let moving = &mut parameters[own.clone()];
            if let (Prior::Server, Some(variance)) = (phase.prior, &variance) {
                let weight = |&variance: &f32| noise / (samples.count as f32 * variance);
                trainer.set_prior(moving, variance[own].iter().map(weight));
            }
            let noisy = if alone { network.all_layers() } else { phase.part.layers(network) };
            for _ in 0..phase.epochs {
                order.shuffle(&mut rng);
                let mut sum = 0.0;
                for rows in order.chunks(batch.max(1)) {
                    let loss = if phase.noise > 0.0 {
                        let noise = (&noisy, phase.noise);
                        trainer.noisy_step(network, moving, inputs, targets, rows, noise, &mut rng)
                    } else {
                        trainer.step(network, moving, inputs, targets, rows)
                    };
                    sum += loss * rows.len() as f64;
                }
                loss = Some(sum / samples.count as f64);
            }
        }
        let trained = started.elapsed().as_secs_f64();
        let posterior = inference.map(|inference| {
            let noise = self.noise(&parameters, data);
            let evidence = self.evidence(&parameters, variance.as_deref(), samples, &noise);
            let selection = match purpose {
                Purpose::Tuning => Purpose::PersonalSelection,
                _ => Purpose::Selection,
            };
            inference.infer(&evidence, &mut self.streams.stream(selection, client as u64, round))
        });
        let inferred = if posterior.is_some() { started.elapsed().as_secs_f64() - trained } else { 0.0 };
        bench.busy = Busy { train: trained, posterior: inferred };
        Trained { client, parameters, loss, samples: samples.count, posterior }
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
        forward_in_batches(&self.network, parameters, &samples.inputs, Tape::forward_body)
    }

    /// The network's outputs for every row of `inputs`.
    #[must_use]
    pub fn outputs(&self, parameters: &[f32], inputs: &[f32]) -> Vec<f32> {
        forward_in_batches(&self.network, parameters, inputs, Tape::forward)
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

impl Workbench {
    /// A trainer for this phase with fresh optimiser state and room for the batch, and room for the order of
    /// samples.
    fn trainer(
        &mut self,
        trade: &Trade,
        network: &Network,
        phase: Phase,
        batch: usize,
    ) -> (&mut Trainer<f32>, &mut Vec<u32>) {
        let fits = |&(part, rate, ref trainer): &(Part, f64, Trainer<f32>)| {
            part == phase.part && rate == phase.rate && trainer.capacity() >= batch
        };
        let index = self.benches.iter().position(fits).unwrap_or_else(|| {
            let layers =
                if phase.part == Part::Head { network.all_layers() } else { phase.part.layers(network) };
            let optimizer = trade.training.optimizer(phase.rate);
            let trainer = Trainer::new(network, layers, trade.loss, optimizer, batch);
            self.benches.retain(|(part, rate, _)| *part != phase.part || *rate != phase.rate);
            self.benches.push((phase.part, phase.rate, trainer));
            self.benches.len() - 1
        });
        let trainer = &mut self.benches[index].2;
        trainer.reset();
        (trainer, &mut self.order)
    }
}
