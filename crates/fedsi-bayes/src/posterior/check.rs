//! Whether selected parameters and their prior fit the network.

use crate::error::PosteriorError;
use crate::network::{LinearisedNetwork, length};

/// Whether these are ascending parameters of the network, with a prior variance each.
pub(super) fn check_selected(
    network: &dyn LinearisedNetwork,
    selected: &[usize],
    prior_variance: &[f64],
) -> Result<(), PosteriorError> {
    let parameters = network.layout().len();
    let wrong = selected.windows(2).position(|pair| pair[0] >= pair[1]).map(|position| position + 1);
    if let Some(position) = wrong.or_else(|| selected.iter().position(|&index| index >= parameters)) {
        return Err(PosteriorError::Selection { position, index: selected[position], parameters });
    }
    length("prior variances", selected.len(), prior_variance.len())?;
    match prior_variance.iter().position(|&variance| !(variance > 0.0 && variance.is_finite())) {
        Some(position) => Err(PosteriorError::Prior { position, variance: prior_variance[position] }),
        None => Ok(()),
    }
}
