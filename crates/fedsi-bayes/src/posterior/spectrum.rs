//! What the data contributes in its own directions: outputs under many scales of the prior variances at once.
//!
//! In units of the prior's standard deviations let `A` be the data's contribution to the precision, `W` a factor of it
//! with orthogonal columns: `A = W W'`, `W' W = diag(l)`. For prior variances times c the covariance is then
//! `c (I - W diag(c / (1 + c l)) W')`: with `Y = J W` computed once for a batch of samples, each scale takes a
//! weighted product of Y with itself and nothing else.

use faer::MatRef;

use super::TEST_BATCH;
use super::check::check_selected;
use super::contribution::{Contribution, Contributions};
use super::symmetrise;
use crate::algebra::{JacobianFactors, LinearAlgebra};
use crate::collect::{Collector, columns_of};
use crate::dense::{multiply, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::ColumnSet;
use crate::network::LinearisedNetwork;
use crate::outputs::OutputDistribution;
use crate::problem::Problem;

/// The posteriors of all scales of the prior variances.
#[derive(Clone, Debug)]
pub(crate) struct Spectrum {
    subnetwork: ColumnSet,
    live: ColumnSet,
    keep: Vec<bool>,
    /// The variance of each column that does not come from the directions, at scale 1.
    independent: Vec<f64>,
    /// Their columns times the prior's standard deviations: `[live columns, rank]`.
    directions: Vec<f64>,
    /// What the data adds to the precision in each direction, in units of the prior's.
    eigenvalues: Vec<f64>,
    /// Whether the directions are an orthonormal basis of all live columns; else they are `W`.
    whole: bool,
}

impl Spectrum {
    /// For the parameters `selected` (ascending flat indices) with independent priors of these variances.
    ///
    /// With a tolerance, no variance comes out too small, and at `scale` and below none too large by more than the
    /// tolerance: none of any combination of parameters if the data is small, else the mean over
    /// [`Probes`](super::probes::Probes) among `inputs`.
    ///
    /// Cost: B B' or B' B, as many steps of its factorisation as there are directions to keep, and an
    /// eigendecomposition of that size; with tolerance 0 one of the smaller side of B.
    pub(crate) fn new(
        problem: &Problem<'_>,
        selected: &[usize],
        prior_variance: &[f64],
        tolerance: f64,
        scale: f64,
        inputs: &[f64],
    ) -> Result<Self, PosteriorError> {
        check_selected(&**problem.network(), selected, prior_variance)?;
        let subnetwork = columns_of(&**problem.network(), selected);
        let mut independent = subnetwork.sorted(prior_variance);
        let deviation: Vec<f64> = independent.iter().map(|variance| variance.sqrt()).collect();
        let contributions = Contributions { problem, deviation: &deviation };
        let (keep, live, contribution) = contributions.for_scale(&subnetwork, tolerance, scale, inputs)?;
        let whole = matches!(contribution, Contribution::Parameters { .. } | Contribution::OnDevice { .. });
        let (eigenvalues, mut directions) = decompose(contribution, &live, problem.network().algebra())?;
        let own = deviation.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(&deviation, _)| deviation);
        for (row, deviation) in directions.chunks_exact_mut(eigenvalues.len().max(1)).zip(own) {
            for value in row {
                *value *= deviation;
            }
        }
        if whole {
            for (variance, _) in independent.iter_mut().zip(&keep).filter(|(_, keep)| **keep) {
                *variance = 0.0;
            }
        }
        Ok(Self { subnetwork, live, keep, independent, directions, eigenvalues, whole })
    }

    /// The distribution of the linearised network's outputs for each of the samples `inputs`: `each` has it batch by
    /// batch, for one scale after the other.
    ///
    /// Cost for each sample: one backward pass an output and (columns + outputs x units) x rank multiplications, and
    /// outputs^2 / 2 x rank for each scale.
    pub(crate) fn outputs(
        &self,
        network: &dyn LinearisedNetwork,
        parameters: &[f64],
        inputs: &[f64],
        scales: &[f64],
        mut each: impl FnMut(usize, &OutputDistribution),
    ) -> Result<(), PosteriorError> {
        let (outputs, rank) = (network.outputs(), self.eigenvalues.len());
        let weights = self.weights(scales);
        let mut collector = Collector::new(network, parameters, &self.subnetwork, TEST_BATCH);
        let samples = inputs.len() / network.inputs();
        let mut projector = network.algebra().projector(&self.directions, rank, false, samples)?;
        let all_live = !self.keep.contains(&false);
        for batch in collector.batches(inputs) {
            let (mean, jacobian) = collector.collect(batch, None, None)?;
            let prior = jacobian.independent_covariances(&self.subnetwork, &self.independent);
            let restricted = (!all_live).then(|| jacobian.restrict(&self.subnetwork, &self.keep));
            let own = JacobianFactors::new(restricted.as_ref().unwrap_or(&jacobian), &self.live);
            let weighted = projector.weighted_outer_products(&own, &weights, scales.len())?;
            let mut found = OutputDistribution { outputs, mean, covariance: vec![0.0; prior.len()] };
            for (index, (&scale, weighted)) in
                scales.iter().zip(weighted.chunks_exact(prior.len().max(1))).enumerate()
            {
                for ((value, &prior), &weighted) in found.covariance.iter_mut().zip(&prior).zip(weighted) {
                    *value = scale * prior + weighted;
                }
                for block in found.covariance.chunks_exact_mut(outputs * outputs) {
                    symmetrise(block, outputs);
                }
                each(index, &found);
            }
        }
        Ok(())
    }

    /// What each direction counts for at each scale: `[rank, scales]`.
    fn weights(&self, scales: &[f64]) -> Vec<f64> {
        let weight = |(&eigenvalue, &scale): (&f64, &f64)| {
            let kept = scale / (scale * eigenvalue + 1.0);
            if self.whole { kept } else { -scale * kept }
        };
        let pairs = self.eigenvalues.iter().flat_map(|value| scales.iter().map(move |scale| (value, scale)));
        pairs.map(weight).collect()
    }
}

/// Eigenvalues, and directions `[live columns, rank]`.
fn decompose(
    contribution: Contribution,
    live: &ColumnSet,
    algebra: &dyn LinearAlgebra,
) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
    let columns = live.columns();
    match contribution {
        Contribution::Parameters { normal } => Ok(all_directions(algebra.eigen(&normal, columns)?, columns)),
        Contribution::OnDevice { normal } => Ok(all_directions(normal.eigen()?, columns)),
        Contribution::Samples { jacobian, gram } => {
            let size = jacobian.rows();
            let (values, vectors) = positive(algebra.eigen(&gram, size)?, size);
            let vectors = MatRef::from_column_major_slice(&vectors, size, values.len());
            Ok((values, jacobian.transpose_times(live, vectors, false)))
        }
        Contribution::Projection(projection) => {
            let rank = projection.rank;
            let (values, vectors) = positive(algebra.eigen(&projection.core, rank)?, rank);
            let mut directions = vec![0.0; columns * values.len()];
            if !values.is_empty() {
                let vectors = MatRef::from_column_major_slice(&vectors, rank, values.len());
                let spread = rows(&projection.spread, columns, rank);
                multiply(rows_mut(&mut directions, columns, values.len()), spread, vectors);
            }
            Ok((values, directions))
        }
    }
}

/// Eigenvalues, none below 0, and the eigenvectors as columns.
fn all_directions((mut values, vectors): (Vec<f64>, Vec<f64>), columns: usize) -> (Vec<f64>, Vec<f64>) {
    for value in &mut values {
        *value = value.max(0.0);
    }
    let mut directions = vec![0.0; columns * columns];
    if columns > 0 {
        let vectors = MatRef::from_column_major_slice(&vectors, columns, columns);
        rows_mut(&mut directions, columns, columns).copy_from(vectors);
    }
    (values, directions)
}

/// Only what is not rounding: eigenvalues come in ascending order.
fn positive(found: (Vec<f64>, Vec<f64>), size: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut vectors) = found;
    let least = values.last().map_or(0.0, |largest| largest * size as f64 * f64::EPSILON).max(0.0);
    let first = values.partition_point(|&value| value <= least);
    (values.split_off(first), vectors.split_off(first * size))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedsi_nn::{LayerSpec, Network};
    use fedsi_random::{Purpose, Streams};
    use rand::RngExt as _;

    use super::*;
    use crate::likelihood::Likelihood;

    /// Enough data for the side of the parameters, and enough parameters for a factor to be extended.
    #[test]
    fn a_factor_grows_until_the_probes_are_within_the_tolerance() {
        let layers = [LayerSpec::Linear(20), LayerSpec::Tanh, LayerSpec::Linear(3)];
        let network = Network::new(&[18], &layers).unwrap();
        let mut rng = Streams::new(5).stream(Purpose::Batches, 0, 0);
        let parameters: Vec<f64> = (0..network.layout().len()).map(|_| rng.random::<f64>() - 0.5).collect();
        let inputs: Vec<f64> = (0..700 * 18).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect();
        let (train, test) = inputs.split_at(680 * 18);
        let selected: Vec<usize> = (0..network.layout().len()).collect();
        let prior = vec![0.3; selected.len()];
        let problem = Problem::new(Arc::new(network), parameters, train, Likelihood::Categorical).unwrap();
        let scales = [0.1, 1.0, 4.0];
        let spectrum = |tolerance| Spectrum::new(&problem, &selected, &prior, tolerance, 4.0, test).unwrap();
        let variances = |spectrum: &Spectrum| {
            let mut found = vec![Vec::new(); scales.len()];
            let network = &**problem.network();
            spectrum
                .outputs(network, problem.parameters(), test, &scales, |scale, outputs| {
                    found[scale].extend(outputs.covariance.iter().copied());
                })
                .unwrap();
            found
        };
        let exact = variances(&spectrum(0.0));
        let mut ranks = Vec::new();
        for tolerance in [1.0, 0.1, 1e-3] {
            let loose = spectrum(tolerance);
            ranks.push(loose.eigenvalues.len());
            for (loose, exact) in variances(&loose).iter().zip(&exact) {
                let mut mean = 0.0;
                for (loose, exact) in loose.chunks_exact(9).zip(exact.chunks_exact(9)) {
                    for output in [0, 4, 8] {
                        let excess = loose[output] / exact[output] - 1.0;
                        assert!(excess > -1e-9, "{tolerance}: {excess}");
                        mean += excess / 60.0;
                    }
                }
                assert!(mean <= tolerance, "{mean} > {tolerance}");
            }
        }
        assert!(ranks[0] < ranks[1] && ranks[1] < ranks[2], "{ranks:?}");
        assert!(ranks[0] > 128 && ranks[2] <= selected.len(), "{ranks:?} of {}", selected.len());
    }
}
