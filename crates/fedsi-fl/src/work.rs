//! The local work of one client: which parameters it starts from, which phases it goes through. Work is data,
//! never a closure, so that it can be carried out here, on a GPU, or on a site far away.

use fedsi_data::{Samples, Targets};
use fedsi_nn::{Loss, Network, Tape, Trainer};
use fedsi_random::{Purpose, Streams};
use rand::seq::SliceRandom as _;

use crate::config::TrainingConfig;
use crate::methods::Phase;
use crate::part::Part;

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
    /// What to do, in order.
    pub phases: Vec<Phase>,
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
}

/// Memory for training, kept from one client to the next.
#[derive(Debug, Default)]
pub struct Workbench {
    benches: Vec<(Part, f64, Trainer<f32>)>,
    order: Vec<u32>,
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
    streams: Streams,
}

impl Trade {
    /// Training of this network by these settings.
    #[must_use]
    pub fn new(network: Network, loss: Loss, training: TrainingConfig, streams: Streams) -> Self {
        let head = network.head();
        Self { network, head, loss, training, streams }
    }

    /// Carries out a client's work on its training samples. The result depends on the work, the samples and
    /// the run's seed alone: not on the bench, nor on who else is at work.
    ///
    /// A phase that trains the head alone computes the body's features once, and then costs no more than
    /// training a linear model.
    #[must_use]
    pub fn carry_out(&self, work: LocalWork, samples: &Samples, bench: &mut Workbench) -> Trained {
        let LocalWork { client, round, purpose, mut parameters, phases } = work;
        let mut rng = self.streams.stream(purpose, client as u64, round);
        let targets = targets(samples);
        let mut loss = None;
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
            let moving = &mut parameters[own];
            for _ in 0..phase.epochs {
                order.shuffle(&mut rng);
                let mut sum = 0.0;
                for rows in order.chunks(batch.max(1)) {
                    sum += trainer.step(network, moving, inputs, targets, rows) * rows.len() as f64;
                }
                loss = Some(sum / samples.count as f64);
            }
        }
        Trained { client, parameters, loss, samples: samples.count }
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
