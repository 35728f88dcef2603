//! The phases of local work, one for each kind of objective.

use fedsi_data::Samples;
use fedsi_nn::{LangevinSpec, MeanField};
use fedsi_random::ChaCha8Rng;
use rand::seq::SliceRandom as _;

use super::{ServerGaussian, Trade, Workbench, targets};
use crate::methods::{Objective, Phase, Prior, Reference};
use crate::part::Part;
use crate::state::State;

/// A client in the middle of its work.
pub(super) struct AtWork<'a> {
    pub(super) trade: &'a Trade,
    pub(super) samples: &'a Samples,
    pub(super) server: Option<&'a ServerGaussian>,
    /// The mean variance of regression noise, 1 for classes: the loss takes it to be 1, so against the truth what is
    /// known before the data weighs as much more.
    pub(super) noise: f64,
    pub(super) state: State,
    /// The client's copy of the server's distribution, where it followed.
    pub(super) moved: Option<MeanField<f32>>,
    /// Samples of the head that this work has drawn.
    pub(super) fresh: usize,
    pub(super) rng: ChaCha8Rng,
}

impl AtWork<'_> {
    /// One phase. Returns the mean loss a sample over its last epoch.
    pub(super) fn phase(&mut self, phase: Phase, bench: &mut Workbench) -> f64 {
        match phase.objective {
            Objective::Point { prior, noise } => self.point(phase, prior, noise, bench),
            Objective::Variational { reference, weight } => self.variational(phase, reference, weight, bench),
            Objective::Sample { discard, keep, prior_variance } => {
                let spec = LangevinSpec { step: phase.rate, prior_variance, weight: 1.0 / self.noise };
                self.sample(phase.epochs, discard, keep, spec, bench)
            }
            Objective::OverSamples => self.over_samples(phase, bench),
        }
    }

    fn batch(&self) -> usize {
        self.trade.training.batch.min(self.samples.count).max(1)
    }

    /// A phase that trains the head alone computes the body's features once, and then costs no more than training a
    /// linear model.
    fn point(&mut self, phase: Phase, prior: Prior, noise: f64, bench: &mut Workbench) -> f64 {
        let (trade, samples, batch) = (self.trade, self.samples, self.batch());
        let alone = phase.part == Part::Head;
        let features;
        let (network, inputs, own) = if alone {
            features = trade.features(&self.state.values, samples);
            (&trade.head, &features, trade.network.layout().head())
        } else {
            (&trade.network, &samples.inputs, 0..self.state.values.len())
        };
        let (trainer, order) = bench.point(trade, network, phase, batch);
        let moving = &mut self.state.values[own.clone()];
        if let (Prior::Server, Some(server)) = (prior, self.server) {
            let noise = self.noise as f32;
            let weight = |&variance: &f32| noise / (samples.count as f32 * variance);
            trainer.set_prior(moving, server.variance[own].iter().map(weight));
        }
        let noisy = if alone { network.all_layers() } else { phase.part.layers(network) };
        let targets = targets(samples);
        epochs(phase.epochs, samples.count, batch, order, &mut self.rng, |rows, rng| {
            if noise > 0.0 {
                trainer.noisy_step(network, moving, inputs, targets, rows, (&noisy, noise), rng)
            } else {
                trainer.step(network, moving, inputs, targets, rows)
            }
        })
    }

    fn variational(&mut self, phase: Phase, reference: Reference, weight: f64, bench: &mut Workbench) -> f64 {
        let (trade, samples, batch) = (self.trade, self.samples, self.batch());
        let mean = std::mem::take(&mut self.state.values);
        let start = MeanField { mean, deviation: std::mem::take(&mut self.state.deviation) };
        let (trainer, order) = bench.variational(trade, phase, batch);
        let weight = weight * self.noise / samples.count as f64;
        let held_to = match reference {
            Reference::Start => None,
            Reference::Server => self.moved.take().or_else(|| self.server.map(ServerGaussian::distribution)),
        };
        let follows = held_to.is_some();
        trainer.begin(&start, held_to.as_ref().unwrap_or(&start), weight, follows);
        let targets = targets(samples);
        let loss = epochs(phase.epochs, samples.count, batch, order, &mut self.rng, |rows, rng| {
            trainer.step(&trade.network, &samples.inputs, targets, rows, rng)
        });
        let MeanField { mean, deviation } = trainer.distribution();
        (self.state.values, self.state.deviation) = (mean, deviation);
        self.moved = follows.then(|| trainer.reference());
        loss
    }

    /// Steps of the head's chain, on features that are computed once.
    fn sample(
        &mut self,
        steps: usize,
        discard: usize,
        keep: usize,
        spec: LangevinSpec,
        bench: &mut Workbench,
    ) -> f64 {
        let (trade, samples) = (self.trade, self.samples);
        let features = trade.features(&self.state.values, samples);
        let chain = bench.chain(trade);
        let head = &mut self.state.values[trade.network.layout().head()];
        let (mut loss, targets) = (f64::NAN, targets(samples));
        for step in 0..steps {
            loss = chain.step(&trade.head, head, &features, targets, spec, &mut self.rng);
            if step >= discard {
                self.state.samples.extend_from_slice(head);
            }
        }
        self.fresh = steps.saturating_sub(discard);
        let surplus = self.state.samples.len().saturating_sub(keep.max(self.fresh) * head.len());
        self.state.samples.drain(..surplus);
        loss
    }

    /// The body under all heads that were just drawn.
    fn over_samples(&mut self, phase: Phase, bench: &mut Workbench) -> f64 {
        let (trade, samples, batch) = (self.trade, self.samples, self.batch());
        let layout = trade.network.layout();
        let (body, head) = (layout.body(), layout.head());
        let drawn = self.state.samples.len() - self.fresh * head.len();
        let heads = &self.state.samples[drawn..];
        let Ok((ensemble, order)) = bench.ensemble(trade, self.fresh, phase.rate, batch) else {
            return f64::NAN; // a network that could be made once, too large with more heads: the client is left out
        };
        let mut parameters = self.state.values[body.clone()].to_vec();
        parameters.extend(trade.network.join_heads(heads));
        let targets = targets(samples);
        let loss = epochs(phase.epochs, samples.count, batch, order, &mut self.rng, |rows, _| {
            let super::bench::Ensemble { network, trainer } = &mut *ensemble;
            trainer.step(network, &mut parameters, &samples.inputs, targets, rows)
        });
        self.state.values[body.clone()].copy_from_slice(&parameters[body]);
        loss
    }
}

/// Passes over the samples in ever new orders, a step a batch. Returns the mean loss a sample over the last pass.
fn epochs(
    epochs: usize,
    count: usize,
    batch: usize,
    order: &mut Vec<u32>,
    rng: &mut ChaCha8Rng,
    mut step: impl FnMut(&[u32], &mut ChaCha8Rng) -> f64,
) -> f64 {
    order.clear();
    order.extend(0..count as u32);
    let mut mean = f64::NAN;
    for _ in 0..epochs {
        order.shuffle(rng);
        let mut sum = 0.0;
        for rows in order.chunks(batch) {
            sum += step(rows, rng) * rows.len() as f64;
        }
        mean = sum / count as f64;
    }
    mean
}
