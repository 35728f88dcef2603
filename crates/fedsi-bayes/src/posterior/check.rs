//! Whether what a posterior is asked for fits together.

use fedsi_nn::Network;

use crate::{Likelihood, PosteriorError};

/// Whether lengths, indices and variances fit the network and each other.
pub(super) fn check(
    network: &Network,
    parameters: &[f64],
    inputs: &[f64],
    likelihood: &Likelihood,
    selected: &[usize],
    prior_variance: &[f64],
) -> Result<(), PosteriorError> {
    let length = network.layout().len();
    if parameters.len() != length {
        let found = parameters.len();
        return Err(PosteriorError::Length { what: "parameters", expected: length, found });
    }
    if !inputs.len().is_multiple_of(network.inputs()) {
        let (expected, found) = (network.inputs(), inputs.len());
        return Err(PosteriorError::Length { what: "inputs, a multiple for all samples", expected, found });
    }
    likelihood.check(network.outputs())?;
    check_selection(network, selected, prior_variance)
}

/// Whether these are ascending parameters of the network, with a prior variance each.
pub(super) fn check_selection(
    network: &Network,
    selected: &[usize],
    prior_variance: &[f64],
) -> Result<(), PosteriorError> {
    let parameters = network.layout().len();
    let wrong = selected.windows(2).position(|pair| pair[0] >= pair[1]).map(|position| position + 1);
    if let Some(position) = wrong.or_else(|| selected.iter().position(|&index| index >= parameters)) {
        return Err(PosteriorError::Selection { position, index: selected[position], parameters });
    }
    if prior_variance.len() != selected.len() {
        let (expected, found) = (selected.len(), prior_variance.len());
        return Err(PosteriorError::Length { what: "prior variances", expected, found });
    }
    match prior_variance.iter().position(|&variance| !(variance > 0.0 && variance.is_finite())) {
        Some(position) => Err(PosteriorError::Prior { position, variance: prior_variance[position] }),
        None => Ok(()),
    }
}
