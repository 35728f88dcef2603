//! One training step, without an allocation.

use rand::Rng;

use crate::scalar::vectorised;
use crate::{
    LayerSet, Loss, Network, Optimizer, OptimizerSpec, ParameterGradient, Scalar, Tape, Targets, WeightNoise,
};

/// Everything a step needs besides network, parameters and data: made once for a phase of training.
#[derive(Clone, Debug)]
pub struct Trainer<T> {
    layers: LayerSet,
    loss: Loss,
    optimizer: Optimizer<T>,
    tape: Tape<T>,
    gradient: ParameterGradient<T>,
    prior: Prior<T>,
    heads: usize,
    /// The batch's rows, each once a head.
    repeated: Vec<u32>,
}

/// What pulls parameters towards where they are expected to be; empty where nothing does.
#[derive(Clone, Debug, Default)]
struct Prior<T> {
    mean: Vec<T>,
    weight: Vec<T>,
}

impl<T: Scalar> Trainer<T> {
    /// A trainer of the given layers (the others stay as they are, and cost no gradient) on batches of up to
    /// `batch` samples.
    #[must_use]
    pub fn new(
        network: &Network,
        layers: LayerSet,
        loss: Loss,
        optimizer: OptimizerSpec,
        batch: usize,
    ) -> Self {
        let optimizer = Optimizer::new(optimizer, layers.spans(network.layout()));
        let tape = Tape::new(network, batch);
        let gradient = ParameterGradient::new(network);
        Self {
            layers,
            loss,
            optimizer,
            tape,
            gradient,
            prior: Prior { mean: Vec::new(), weight: Vec::new() },
            heads: 1,
            repeated: Vec::new(),
        }
    }

    /// The network's outputs are those of `heads` heads side by side ([`Network::under_heads`]), each of which
    /// predicts the targets: the loss is the mean over all.
    #[must_use]
    pub const fn with_heads(mut self, heads: usize) -> Self {
        self.heads = heads;
        self
    }

    /// The largest batch there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.tape.capacity()
    }

    /// Forgets the optimiser's state and the prior, as at the start of a round.
    pub fn reset(&mut self) {
        self.optimizer.reset();
        self.prior.mean.clear();
        self.prior.weight.clear();
    }

    /// Adds `1/2 sum_r weight_r (theta_r - mean_r)^2` to what is minimised, until [`Self::reset`]. For the MAP
    /// estimate under a Gaussian prior of variance `g` and a loss averaged over n samples the weight is
    /// `1 / (n g)`. Both are in the order of the flat parameters; frozen layers ignore theirs. A step then costs
    /// one more pass over the parameters.
    ///
    /// # Panics
    /// If the lengths differ from that of the parameters.
    pub fn set_prior(&mut self, mean: &[T], weight: impl ExactSizeIterator<Item = T>) {
        let size = self.gradient.values().len();
        assert!(mean.len() == size && weight.len() == size, "a prior for other parameters");
        self.prior.mean.clear();
        self.prior.mean.extend_from_slice(mean);
        self.prior.weight.clear();
        self.prior.weight.extend(weight);
    }

    /// The gradient of the last step, in the order of the flat parameters.
    #[must_use]
    pub fn gradient(&self) -> &[T] {
        self.gradient.values()
    }

    /// One step on the samples named by `rows` (indices into `inputs` and `targets`). Returns the batch's mean
    /// loss before the step, without the prior's part.
    pub fn step(
        &mut self,
        network: &Network,
        parameters: &mut [T],
        inputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
    ) -> f64 {
        self.tape.load(network, inputs, rows);
        self.tape.forward(network, parameters);
        self.descend(network, parameters, targets, rows)
    }

    /// [`Self::step`] under Gaussian noise on parameters: one step towards some whose whole neighbourhood does well.
    /// Returns the loss under the noise.
    #[allow(clippy::too_many_arguments)]
    pub fn noisy_step(
        &mut self,
        network: &Network,
        parameters: &mut [T],
        inputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
        noise: WeightNoise<'_>,
        rng: &mut impl Rng,
    ) -> f64 {
        self.tape.load(network, inputs, rows);
        self.tape.forward_noisy(network, parameters, noise, rng);
        self.descend(network, parameters, targets, rows)
    }

    /// The backward pass and the optimiser's step.
    fn descend(
        &mut self,
        network: &Network,
        parameters: &mut [T],
        targets: Targets<'_, T>,
        rows: &[u32],
    ) -> f64 {
        let (outputs, gradient) = self.tape.outputs_and_gradient(network);
        let rows = if self.heads == 1 {
            rows
        } else {
            self.repeated.clear();
            self.repeated.extend(rows.iter().flat_map(|&row| std::iter::repeat_n(row, self.heads)));
            &self.repeated
        };
        let loss = self.loss.gradient(outputs, targets, rows, gradient);
        self.tape.backward(network, parameters, &self.layers, &mut self.gradient);
        if !self.prior.mean.is_empty() {
            self.prior.pull(parameters, self.gradient.values_mut());
        }
        self.optimizer.step(parameters, self.gradient.values());
        loss
    }
}

impl<T: Scalar> Prior<T> {
    fn pull(&self, parameters: &[T], gradient: &mut [T]) {
        vectorised(
            #[inline(always)]
            || {
                let prior = self.mean.iter().zip(&self.weight);
                for ((slope, &parameter), (&mean, &weight)) in gradient.iter_mut().zip(parameters).zip(prior)
                {
                    *slope += weight * (parameter - mean);
                }
            },
        );
    }
}
