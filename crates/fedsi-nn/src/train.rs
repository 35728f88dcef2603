//! One training step, without an allocation.

use crate::{LayerSet, Loss, Network, Optimizer, OptimizerSpec, ParameterGradient, Scalar, Tape, Targets};

/// Everything a step needs besides network, parameters and data: made once for a phase of training.
#[derive(Clone, Debug)]
pub struct Trainer<T> {
    layers: LayerSet,
    loss: Loss,
    optimizer: Optimizer<T>,
    tape: Tape<T>,
    gradient: ParameterGradient<T>,
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
        Self { layers, loss, optimizer, tape, gradient: ParameterGradient::new(network) }
    }

    /// The largest batch there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.tape.capacity()
    }

    /// Forgets the optimiser's state, as at the start of a round.
    pub fn reset(&mut self) {
        self.optimizer.reset();
    }

    /// The gradient of the last step, in the order of the flat parameters.
    #[must_use]
    pub fn gradient(&self) -> &[T] {
        self.gradient.values()
    }

    /// One step on the samples named by `rows` (indices into `inputs` and `targets`). Returns the batch's mean
    /// loss before the step.
    pub fn step(
        &mut self,
        network: &Network,
        parameters: &mut [T],
        inputs: &[T],
        targets: Targets<'_, T>,
        rows: &[u32],
    ) -> f64 {
        let width = network.inputs();
        let batch = self.tape.inputs_mut(network, rows.len());
        for (to, &row) in batch.chunks_exact_mut(width).zip(rows) {
            to.copy_from_slice(&inputs[row as usize * width..][..width]);
        }
        self.tape.forward(network, parameters);
        let (outputs, gradient) = self.tape.outputs_and_gradient(network);
        let loss = self.loss.gradient(outputs, targets, rows, gradient);
        self.tape.backward(network, parameters, &self.layers, &mut self.gradient);
        self.optimizer.step(parameters, self.gradient.values());
        loss
    }
}
