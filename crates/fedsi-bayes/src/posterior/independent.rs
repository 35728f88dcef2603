//! Outputs under many scales of the prior variances at once, where parameters are independent.

use super::TEST_BATCH;
use super::check::check_selected;
use super::symmetrise;
use crate::collect::{Collector, columns_of};
use crate::error::PosteriorError;
use crate::jacobian::ColumnSet;
use crate::network::{LinearisedNetwork, length};
use crate::outputs::OutputDistribution;

/// Independent posteriors of all scales of the prior variances.
#[derive(Clone, Debug)]
pub(crate) struct IndependentScales {
    subnetwork: ColumnSet,
    /// The prior's variance of each column.
    prior: Vec<f64>,
    /// What the data adds to the precision of each.
    curvature: Vec<f64>,
}

impl IndependentScales {
    /// For the parameters `selected` (ascending flat indices), a prior variance and a curvature for each.
    pub(crate) fn new(
        network: &dyn LinearisedNetwork,
        selected: &[usize],
        prior_variance: &[f64],
        curvature: &[f64],
    ) -> Result<Self, PosteriorError> {
        check_selected(network, selected, prior_variance)?;
        length("curvature", selected.len(), curvature.len())?;
        if curvature.iter().any(|value| !value.is_finite()) {
            return Err(PosteriorError::NotPositive);
        }
        let subnetwork = columns_of(network, selected);
        let (prior, curvature) = (subnetwork.sorted(prior_variance), subnetwork.sorted(curvature));
        Ok(Self { subnetwork, prior, curvature })
    }

    /// As [`Spectrum::outputs`](super::Spectrum::outputs). Cost for each sample and scale: columns + outputs^2 x units
    /// multiplications.
    pub(crate) fn outputs(
        &self,
        network: &dyn LinearisedNetwork,
        parameters: &[f64],
        inputs: &[f64],
        scales: &[f64],
        mut each: impl FnMut(usize, &OutputDistribution),
    ) -> Result<(), PosteriorError> {
        if scales.is_empty() {
            return Ok(());
        }
        let outputs = network.outputs();
        let of = |(&prior, &curvature): (&f64, &f64)| {
            scales.iter().map(move |scale| {
                let prior = scale * prior;
                prior / curvature.mul_add(prior, 1.0)
            })
        };
        let variances: Vec<f64> = self.prior.iter().zip(&self.curvature).flat_map(of).collect();
        let mut collector = Collector::new(network, parameters, &self.subnetwork, TEST_BATCH);
        for batch in collector.batches(inputs) {
            let (mean, jacobian) = collector.collect(batch, None, None)?;
            let found = jacobian.independent_covariances_each(&self.subnetwork, &variances, scales.len());
            let mut distribution = OutputDistribution { outputs, mean, covariance: Vec::new() };
            for (index, mut covariance) in found.into_iter().enumerate() {
                for block in covariance.chunks_exact_mut(outputs * outputs) {
                    symmetrise(block, outputs);
                }
                distribution.covariance = covariance;
                each(index, &distribution);
            }
        }
        Ok(())
    }
}
