//! Training a distribution, one draw a step.

use std::ops::Range;

use rand::Rng;

use super::MeanField;
use super::distribution::Parameterised;
use crate::optim::{Rule, apply_both};
use crate::scalar::vectorised;
use crate::{LayerSet, Loss, Network, Optimizer, OptimizerSpec, ParameterGradient, Scalar, Tape, Targets};

/// Parameters that go through all of a step's arithmetic before the next ones do: what a step touches of them stays in
/// the nearest caches.
const BLOCK: usize = 256;

/// Everything that training a distribution needs besides network and data.
///
/// Memory: ten values a parameter more than a [`Trainer`](crate::Trainer) (sixteen where the reference moves), and the
/// squares of a batch's activations. A step takes 2.3 times a deterministic one on the paper's MLP (3.6 times where the
/// reference moves; `examples/steps.rs`): two products for each one there, and five divisions and roots a parameter for two.
/// It allocates nothing.
#[derive(Clone, Debug)]
pub struct VariationalTrainer<T> {
    layers: LayerSet,
    /// Where the parameters of these layers lie.
    spans: Vec<Range<usize>>,
    loss: Loss,
    optimizer: OptimizerSpec,
    tape: Tape<T>,
    gradient: ParameterGradient<T>,
    /// In the variances; then, once the divergence is added, in rho.
    spread_gradient: Vec<T>,
    own: Moving<T>,
    reference: Parameterised<T>,
    weight: T,
    /// The reference's optimisers, where it moves.
    follows: Option<[Optimizer<T>; 2]>,
    /// Steps for each of the reference.
    inner_steps: usize,
    /// Steps since the reference moved.
    since: usize,
}

/// A distribution with the optimisers of its means and spreads.
#[derive(Clone, Debug)]
struct Moving<T> {
    values: Parameterised<T>,
    optimizers: [Optimizer<T>; 2],
}

impl<T: Scalar> VariationalTrainer<T> {
    /// A trainer of the given layers on batches of up to `batch` samples. The parameters of other layers are drawn too,
    /// from a distribution that stays.
    #[must_use]
    pub fn new(
        network: &Network,
        layers: LayerSet,
        loss: Loss,
        optimizer: OptimizerSpec,
        batch: usize,
    ) -> Self {
        let spans = layers.spans(network.layout());
        let optimizers = [Optimizer::new(optimizer, spans.clone()), Optimizer::new(optimizer, spans.clone())];
        Self {
            layers,
            spans,
            loss,
            optimizer,
            tape: Tape::new(network, batch),
            gradient: ParameterGradient::new(network),
            spread_gradient: vec![T::zero(); network.layout().len()],
            own: Moving { values: Parameterised::empty(), optimizers },
            reference: Parameterised::empty(),
            weight: T::zero(),
            follows: None,
            inner_steps: 1,
            since: 0,
        }
    }

    /// The largest batch there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.tape.capacity()
    }

    /// Begins anew from `start`, with fresh optimisers: towards `E[mean loss] + weight KL(. || reference)`. With
    /// `follows` every so many steps the reference also moves, one step down the same divergence.
    ///
    /// # Panics
    /// If the distributions are not of the network's parameters.
    pub fn begin(
        &mut self,
        start: &MeanField<T>,
        reference: &MeanField<T>,
        weight: f64,
        follows: Option<usize>,
    ) {
        let size = self.gradient.values().len();
        for distribution in [start, reference] {
            assert!(
                distribution.mean.len() == size && distribution.deviation.len() == size,
                "other parameters"
            );
        }
        self.own.values.set(start);
        self.own.optimizers.iter_mut().for_each(Optimizer::reset);
        self.reference.set(reference);
        self.weight = T::of(weight);
        (self.inner_steps, self.since) = (follows.unwrap_or(1).max(1), 0);
        match (&mut self.follows, follows.is_some()) {
            (Some(optimizers), true) => optimizers.iter_mut().for_each(Optimizer::reset),
            (follows, true) => {
                let fresh = || Optimizer::new(self.optimizer, self.spans.clone());
                *follows = Some([fresh(), fresh()]);
            }
            (follows, false) => *follows = None,
        }
    }

    /// The distribution that is trained.
    #[must_use]
    pub fn distribution(&self) -> MeanField<T> {
        self.own.values.distribution()
    }

    /// What it is held to.
    #[must_use]
    pub fn reference(&self) -> MeanField<T> {
        self.reference.distribution()
    }

    /// The gradients of the last step, divergence included: in the means, and in rho, where deviations are
    /// `ln(1 + e^rho)`.
    #[must_use]
    pub fn gradients(&self) -> (&[T], &[T]) {
        (self.gradient.values(), &self.spread_gradient)
    }

    /// One step on the samples named by `rows`. Returns the batch's mean loss under the draw, without the divergence.
    pub fn step(
        &mut self,
        network: &Network,
        inputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
        rng: &mut impl Rng,
    ) -> f64 {
        let Moving { values: own, optimizers } = &mut self.own;
        self.tape.load(network, inputs, rows);
        self.tape.forward_sampled(network, &own.mean, &own.variance, rng);
        let (outputs, gradient) = self.tape.outputs_and_gradient(network);
        let loss = self.loss.gradient(outputs, targets, rows, gradient);
        let (slopes, spread) = (&mut self.gradient, &mut self.spread_gradient);
        self.tape.backward_sampled(network, &own.mean, &own.variance, &self.layers, slopes, spread);
        self.since = (self.since + 1) % self.inner_steps;
        let slopes = slopes.values_mut();
        let mut own = Update { rule: advance_both(optimizers), values: own, optimizers };
        let follows = self.follows.as_mut().filter(|_| self.since == 0);
        let reference = &mut self.reference;
        vectorised(
            #[inline(always)]
            || match follows {
                None => {
                    for (block, moved) in blocks(&self.spans) {
                        let (slopes, spread) = (&mut slopes[block.clone()], &mut spread[block.clone()]);
                        add_divergence(own.values, reference, block.clone(), self.weight, slopes, spread);
                        own.apply(block, moved, slopes, spread);
                    }
                }
                Some(optimizers) => {
                    let mut other = Update { rule: advance_both(optimizers), values: reference, optimizers };
                    for (block, moved) in blocks(&self.spans) {
                        let (slopes, spread) = (&mut slopes[block.clone()], &mut spread[block.clone()]);
                        add_divergence(own.values, other.values, block.clone(), self.weight, slopes, spread);
                        own.apply(block.clone(), moved.clone(), slopes, spread);
                        divergence_in_reference(own.values, other.values, block.clone(), slopes, spread);
                        other.apply(block, moved, slopes, spread);
                    }
                }
            },
        );
        loss
    }
}

/// The parameters of the spans in blocks: their places among all, and among those that move.
#[inline(always)]
fn blocks(spans: &[Range<usize>]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut done = 0;
    spans
        .iter()
        .flat_map(|span| span.clone().step_by(BLOCK).map(|start| start..span.end.min(start + BLOCK)))
        .map(move |block| {
            let moved = done..done + block.len();
            done = moved.end;
            (block, moved)
        })
}

/// Begins the next step of means and rho: the same for both.
fn advance_both<T: Scalar>([mean, rho]: &mut [Optimizer<T>; 2]) -> Rule<T> {
    mean.advance();
    rho.advance()
}

/// A step of a distribution: of its means and of its rho.
struct Update<'a, T> {
    rule: Rule<T>,
    values: &'a mut Parameterised<T>,
    optimizers: &'a mut [Optimizer<T>; 2],
}

impl<T: Scalar> Update<'_, T> {
    /// The step of a block, and what follows from it.
    #[inline(always)]
    fn apply(&mut self, block: Range<usize>, moved: Range<usize>, in_mean: &[T], in_rho: &[T]) {
        let parameters = [&mut self.values.mean[block.clone()], &mut self.values.rho[block.clone()]];
        apply_both(self.optimizers, &self.rule, moved, parameters, [in_mean, in_rho]);
        self.values.refresh(block);
    }
}

/// From the loss's gradient in means and variances to the objective's in means and rho. With d = KL(q || p), m and s
/// of q, n and t of p: `dd/dm = (m - n)/t^2`, `dd/ds = s/t^2 - 1/s`; and a variance moves with s as `2 s`.
#[inline(always)]
fn add_divergence<T: Scalar>(
    own: &Parameterised<T>,
    reference: &Parameterised<T>,
    range: Range<usize>,
    weight: T,
    in_mean: &mut [T],
    in_spread: &mut [T],
) {
    let (mean, reference_mean) = (&own.mean[range.clone()], &reference.mean[range.clone()]);
    let (deviation, slope) = (&own.deviation[range.clone()], &own.slope[range.clone()]);
    let variance = &reference.variance[range];
    let gradients = in_mean.iter_mut().zip(in_spread);
    let own = mean.iter().zip(deviation).zip(slope);
    let reference = reference_mean.iter().zip(variance);
    for (((in_mean, in_spread), ((&m, &s), &slope)), (&n, &square)) in gradients.zip(own).zip(reference) {
        // One division for weight/t^2 and weight/s.
        let inverse = weight / (square * s);
        let precision = inverse * s;
        *in_mean += precision * (m - n);
        *in_spread = slope * (s * (*in_spread + *in_spread + precision) - inverse * square);
    }
}

/// The gradient of `KL(q || p)` in p: `(n - m)/t^2` in its mean, `1/t - (s^2 + (m - n)^2)/t^3` in its deviation, and
/// from there to rho.
#[inline(always)]
fn divergence_in_reference<T: Scalar>(
    own: &Parameterised<T>,
    reference: &Parameterised<T>,
    range: Range<usize>,
    in_mean: &mut [T],
    in_spread: &mut [T],
) {
    let (mean, variance) = (&own.mean[range.clone()], &own.variance[range.clone()]);
    let (reference_mean, slope) = (&reference.mean[range.clone()], &reference.slope[range.clone()]);
    let deviation = &reference.deviation[range];
    let gradients = in_mean.iter_mut().zip(in_spread);
    let own = mean.iter().zip(variance);
    let reference = reference_mean.iter().zip(deviation.iter().zip(slope));
    for (((in_mean, in_spread), (&m, &square)), (&n, (&t, &slope))) in gradients.zip(own).zip(reference) {
        let inverse = T::one() / t;
        let gap = n - m;
        *in_mean = gap * inverse * inverse;
        *in_spread = slope * inverse * (T::one() - (square + gap * gap) * inverse * inverse);
    }
}
