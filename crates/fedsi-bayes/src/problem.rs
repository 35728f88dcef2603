//! What a posterior is computed from, checked once.

use std::sync::Arc;

use fedsi_nn::Targets;

use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::network::{LinearisedNetwork, forward, length};
use crate::predictive::log_likelihood;

/// A network at its trained parameters, the data they were trained on, and what its outputs mean.
///
/// Everything is checked here, so that selection and fit can rely on it. The
/// network and its parameters are shared with the posteriors fitted to them, the inputs are borrowed.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    network: Arc<dyn LinearisedNetwork>,
    parameters: Arc<[f64]>,
    inputs: &'a [f64],
    likelihood: Likelihood,
    log_likelihood: Option<f64>,
}

impl<'a> Problem<'a> {
    /// `parameters` are all of the network's, `inputs` the training samples one after the other.
    ///
    /// # Errors
    /// Lengths or a noise that do not fit the network.
    pub fn new(
        network: Arc<dyn LinearisedNetwork>,
        parameters: impl Into<Arc<[f64]>>,
        inputs: &'a [f64],
        likelihood: Likelihood,
    ) -> Result<Self, PosteriorError> {
        let parameters = parameters.into();
        check_parameters(&*network, &parameters)?;
        check_inputs(&*network, inputs)?;
        likelihood.check(network.outputs())?;
        Ok(Self { network, parameters, inputs, likelihood, log_likelihood: None })
    }

    /// The same with the targets of the samples: only a log marginal likelihood needs
    /// them.
    ///
    /// Cost: a forward pass over the data; the targets themselves are not kept.
    ///
    /// # Errors
    /// Targets that do not fit the likelihood or the inputs; a network that cannot be evaluated.
    pub fn with_targets(mut self, targets: Targets<'_, f64>) -> Result<Self, PosteriorError> {
        let (samples, width) = (self.samples(), self.network.outputs());
        check_targets(&self.likelihood, targets, samples, width)?;
        let outputs = forward(&*self.network, &self.parameters, self.inputs)?;
        self.log_likelihood = Some(log_likelihood(&self.likelihood, &outputs, width, targets));
        Ok(self)
    }

    /// The network.
    #[must_use]
    pub const fn network(&self) -> &Arc<dyn LinearisedNetwork> {
        &self.network
    }

    /// Where it is linearised: all of its parameters.
    #[must_use]
    pub const fn parameters(&self) -> &Arc<[f64]> {
        &self.parameters
    }

    /// The training samples, one after the other.
    #[must_use]
    pub const fn inputs(&self) -> &'a [f64] {
        self.inputs
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.inputs.len() / self.network.inputs()
    }

    /// What the outputs mean.
    #[must_use]
    pub const fn likelihood(&self) -> &Likelihood {
        &self.likelihood
    }

    /// The log likelihood of the targets at the network's own outputs; none without targets.
    #[must_use]
    pub const fn log_likelihood(&self) -> Option<f64> {
        self.log_likelihood
    }
}

/// Whether there is a value for each parameter of the network.
pub(crate) fn check_parameters(
    network: &dyn LinearisedNetwork,
    parameters: &[f64],
) -> Result<(), PosteriorError> {
    // Division by either is safe from here on.
    for (what, found) in
        [("inputs of the network", network.inputs()), ("outputs of the network", network.outputs())]
    {
        if found == 0 {
            return Err(PosteriorError::Length { what, expected: 1, found });
        }
    }
    length("parameters", network.layout().len(), parameters.len())
}

/// Whether these are whole samples.
pub(crate) fn check_inputs(network: &dyn LinearisedNetwork, inputs: &[f64]) -> Result<(), PosteriorError> {
    if inputs.len().is_multiple_of(network.inputs()) {
        return Ok(());
    }
    let (expected, found) = (network.inputs(), inputs.len());
    Err(PosteriorError::Length { what: "inputs, a multiple for all samples", expected, found })
}

/// Whether these are targets of the likelihood, for each of so many samples of `width` outputs.
pub(crate) fn check_targets(
    likelihood: &Likelihood,
    targets: Targets<'_, f64>,
    samples: usize,
    width: usize,
) -> Result<(), PosteriorError> {
    match (likelihood, targets) {
        (Likelihood::Categorical, Targets::Classes(labels)) => {
            length("labels", samples, labels.len())?;
            match labels.iter().position(|&label| label as usize >= width) {
                Some(row) => Err(PosteriorError::Label { row, label: labels[row], classes: width }),
                None => Ok(()),
            }
        }
        (Likelihood::Gaussian { .. }, Targets::Values(values)) => {
            length("target values", samples * width, values.len())
        }
        (Likelihood::Categorical, Targets::Values(_)) => {
            Err(PosteriorError::TargetKind { expected: "class labels", found: "values" })
        }
        (Likelihood::Gaussian { .. }, Targets::Classes(_)) => {
            Err(PosteriorError::TargetKind { expected: "values", found: "class labels" })
        }
    }
}
