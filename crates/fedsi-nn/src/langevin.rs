//! Langevin sampling: parameters drawn from a posterior by noisy descent.

use num_traits::Float;
use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::scalar::vectorised;
use crate::{LayerSet, Loss, Network, ParameterGradient, Scalar, Tape, Targets};

/// The posterior that is drawn from, and how far a step goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LangevinSpec {
    /// Step size h: a step is `theta - h/2 grad U(theta) + sqrt(h) z`, z standard normal.
    pub step: f64,
    /// Variance of every parameter before the data.
    pub prior_variance: f64,
    /// How much a sample's loss counts: 1 where the loss is a negative log likelihood.
    pub weight: f64,
}

/// A chain of unadjusted Langevin steps on `U = weight (sum of losses) + |theta|^2 / (2 prior variance)`, with the
/// gradient of all data.
///
/// The draws of a long chain are those of `exp(-U)` up to what the step size adds: along a direction of curvature c
/// their variance is `1 / (c (1 - h c / 4))`, and above `h c = 4` the chain diverges.
#[derive(Clone, Debug)]
pub struct Langevin<T> {
    layers: LayerSet,
    loss: Loss,
    tape: Tape<T>,
    gradient: ParameterGradient<T>,
    sum: Vec<T>,
    rows: Vec<u32>,
}

impl<T: Scalar> Langevin<T> {
    /// A sampler of all parameters that takes `batch` samples at a time through the network.
    #[must_use]
    pub fn new(network: &Network, loss: Loss, batch: usize) -> Self {
        Self {
            layers: network.all_layers(),
            loss,
            tape: Tape::new(network, batch.max(1)),
            gradient: ParameterGradient::new(network),
            sum: vec![T::zero(); network.layout().len()],
            rows: Vec::new(),
        }
    }

    /// One step on all samples. Returns their mean loss before it. Cost: a pass over the data.
    pub fn step(
        &mut self,
        network: &Network,
        parameters: &mut [T],
        inputs: &[T],
        targets: Targets<'_, T>,
        spec: LangevinSpec,
        rng: &mut impl Rng,
    ) -> f64 {
        let count = inputs.len() / network.inputs();
        self.rows.clear();
        self.rows.extend(0..count as u32);
        self.sum.fill(T::zero());
        let mut total = 0.0;
        for rows in self.rows.chunks(self.tape.capacity()) {
            self.tape.load(network, inputs, rows);
            self.tape.forward(network, parameters);
            let (outputs, gradient) = self.tape.outputs_and_gradient(network);
            total += rows.len() as f64 * self.loss.gradient(outputs, targets, rows, gradient);
            self.tape.backward(network, parameters, &self.layers, &mut self.gradient);
            // The gradient is that of the batch's mean.
            let share = T::of(rows.len() as f64);
            for (sum, &slope) in self.sum.iter_mut().zip(self.gradient.values()) {
                *sum += share * slope;
            }
        }
        let (half, weight) = (T::of(0.5 * spec.step), T::of(spec.weight));
        let (precision, spread) = (T::of(1.0 / spec.prior_variance), Float::sqrt(T::of(spec.step)));
        let sum = &mut self.sum;
        vectorised(
            #[inline(always)]
            || {
                for (slope, parameter) in sum.iter_mut().zip(parameters.iter_mut()) {
                    *slope = *parameter - half * (weight * *slope + precision * *parameter);
                }
            },
        );
        for (parameter, &drift) in parameters.iter_mut().zip(&*sum) {
            let draw: f64 = StandardNormal.sample(rng);
            *parameter = drift + spread * T::of(draw);
        }
        total / count.max(1) as f64
    }
}
