//! What a posterior needs of a network.

use std::fmt;

use fedsi_nn::{Layout, Network, Tape, jacobian};

use crate::algebra::{LinearAlgebra, SingleThread};
use crate::error::{EvaluationError, PosteriorError};

/// Samples of one forward pass.
const FORWARD_BATCH: usize = 128;

/// Outputs of a batch and their derivatives in chosen parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchJacobian {
    /// Logits, or regression means: `[samples, outputs]`.
    pub outputs: Vec<f64>,
    /// Derivatives of these in the chosen parameters: `[samples, outputs, chosen]`.
    pub derivatives: Vec<f64>,
}

/// A network whose outputs can be linearised in its parameters.
///
/// Parameters are one flat slice, named by a [`Layout`]. The two methods that compute are handed batches of at most
/// as many samples as keep the result within some 32 MiB (never fewer than one), so an implementation need not
/// divide them again. What they return is checked: values too few or too many are a typed error, values that are
/// not finite give [`PosteriorError::NotPositive`].
///
/// [`Network`] implements it; a module of another library does so by the dense block of
/// [`jacobian`](Self::jacobian).
pub trait LinearisedNetwork: fmt::Debug + Send + Sync {
    /// Names and places of the parameters.
    fn layout(&self) -> &Layout;

    /// Values of one input.
    fn inputs(&self) -> usize;

    /// Values of one output: classes, or regression targets.
    fn outputs(&self) -> usize;

    /// The outputs of a batch: `[samples, outputs]`.
    ///
    /// # Errors
    /// What the network's library reports.
    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError>;

    /// The outputs of a batch, and their derivatives in the parameters `chosen` (ascending flat indices).
    ///
    /// # Errors
    /// What the network's library reports.
    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError>;

    /// The network itself, where it is one of fedsi-nn: its derivatives in linear layers are then kept in factors
    /// and never multiplied out, and [`jacobian`](Self::jacobian) is not called.
    fn as_layered(&self) -> Option<&Network> {
        None
    }

    /// What computes with its Jacobians: faer on the caller's thread, unless it says otherwise.
    fn algebra(&self) -> &dyn LinearAlgebra {
        &SingleThread
    }
}

/// The outputs of any number of samples, in batches.
pub(crate) fn forward(
    network: &dyn LinearisedNetwork,
    parameters: &[f64],
    inputs: &[f64],
) -> Result<Vec<f64>, PosteriorError> {
    let mut outputs = Vec::with_capacity(inputs.len() / network.inputs() * network.outputs());
    for batch in inputs.chunks(FORWARD_BATCH * network.inputs()) {
        let found = network.forward(parameters, batch)?;
        length("the network's outputs", batch.len() / network.inputs() * network.outputs(), found.len())?;
        outputs.extend(found);
    }
    Ok(outputs)
}

/// One batch by [`LinearisedNetwork::jacobian`], lengths checked.
pub(crate) fn jacobian_of(
    network: &dyn LinearisedNetwork,
    parameters: &[f64],
    inputs: &[f64],
    chosen: &[usize],
) -> Result<BatchJacobian, PosteriorError> {
    let found = network.jacobian(parameters, inputs, chosen)?;
    let expected = inputs.len() / network.inputs() * network.outputs();
    length("the network's outputs", expected, found.outputs.len())?;
    length("the network's derivatives", expected * chosen.len(), found.derivatives.len())?;
    Ok(found)
}

/// Whether an array has the length it should have.
pub(crate) const fn length(what: &'static str, expected: usize, found: usize) -> Result<(), PosteriorError> {
    if expected == found { Ok(()) } else { Err(PosteriorError::Length { what, expected, found }) }
}

impl LinearisedNetwork for Network {
    fn layout(&self) -> &Layout {
        Self::layout(self)
    }

    fn inputs(&self) -> usize {
        Self::inputs(self)
    }

    fn outputs(&self) -> usize {
        Self::outputs(self)
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        let samples = inputs.len() / Self::inputs(self);
        let mut tape = Tape::new(self, samples.max(1));
        tape.inputs_mut(self, samples).copy_from_slice(inputs);
        Ok(tape.forward(self, parameters).to_vec())
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        let samples = inputs.len() / Self::inputs(self);
        let mut tape = Tape::new(self, samples.max(1));
        tape.inputs_mut(self, samples).copy_from_slice(inputs);
        let outputs = tape.forward(self, parameters).to_vec();
        let derivatives = jacobian::columns(&mut tape, self, parameters, chosen);
        Ok(BatchJacobian { outputs, derivatives })
    }

    fn as_layered(&self) -> Option<&Network> {
        Some(self)
    }
}
