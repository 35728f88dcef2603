//! The Gaussian posterior over a subnetwork.

mod check;
mod contribution;
mod draws;
mod factors;
mod family;
mod independent;
mod pivots;
mod probes;
mod projection;
mod spectrum;
#[cfg(test)]
mod tests;

pub use contribution::Form;
pub(crate) use contribution::is_exact_faster;
pub use factors::{Covariance, Factors};
pub use family::PosteriorFamily;
pub(crate) use independent::IndependentScales;
pub(crate) use spectrum::Spectrum;

use crate::algebra::JacobianFactors;
use crate::collect::{Collector, columns_of};
use crate::dense::{mirror, multiply_add_lower, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::ColumnSet;
use crate::network::{LinearisedNetwork, length};
use crate::outputs::OutputDistribution;
use crate::problem::Problem;

/// Largest batch of test samples.
const TEST_BATCH: usize = 128;

/// A Gaussian over selected parameters of a network, around the point it was linearised at: its precision is the
/// GGN summed over the data plus the prior's precision.
///
/// The covariance is held in factors: as a reduction of the prior, `diag(g) - W W'`, where the data determines fewer
/// directions than there are parameters, or as `W W'`. Parameters without curvature keep their prior, exactly, and
/// are not in the factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    selected: Vec<usize>,
    prior_variance: Vec<f64>,
    /// All of the selected parameters.
    subnetwork: ColumnSet,
    /// Those with curvature, which the factor covers.
    live: ColumnSet,
    /// Which columns of `subnetwork` these are.
    keep: Vec<bool>,
    covariance: Covariance,
    /// Whether the factor is upper triangular, in the order of columns.
    upper: bool,
    log_determinant_ratio: f64,
    certificate: f64,
}

impl Posterior {
    /// Independent marginals `1 / (h + 1 / g)` with h the diagonal of the GGN, `curvature`: no correlations, for any
    /// number of parameters. Cost: linear in them.
    pub(crate) fn independent(
        network: &dyn LinearisedNetwork,
        selected: &[usize],
        prior_variance: &[f64],
        curvature: &[f64],
    ) -> Result<Self, PosteriorError> {
        check::check_selected(network, selected, prior_variance)?;
        length("curvature", selected.len(), curvature.len())?;
        let mut log_determinant_ratio = 0.0;
        let mut variance = Vec::with_capacity(selected.len());
        for (&curvature, &prior) in curvature.iter().zip(prior_variance) {
            log_determinant_ratio += (curvature * prior).ln_1p();
            variance.push(prior / curvature.mul_add(prior, 1.0));
        }
        if !log_determinant_ratio.is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        let subnetwork = columns_of(network, selected);
        let covariance = Covariance::Independent { variance };
        let keep = vec![true; selected.len()];
        Ok(Self {
            selected: selected.to_vec(),
            prior_variance: prior_variance.to_vec(),
            live: subnetwork.clone(),
            subnetwork,
            keep,
            covariance,
            upper: false,
            log_determinant_ratio,
            certificate: 0.0,
        })
    }

    /// Whether its columns are those of this network.
    pub(crate) fn check_network(&self, network: &dyn LinearisedNetwork) -> Result<(), PosteriorError> {
        check::check_selected(network, &self.selected, &self.prior_variance)?;
        if columns_of(network, &self.selected) == self.subnetwork {
            Ok(())
        } else {
            Err(PosteriorError::OtherNetwork)
        }
    }

    /// The parameters it is over: ascending indices into the flat parameters.
    #[must_use]
    pub fn selected(&self) -> &[usize] {
        &self.selected
    }

    /// The prior's variance of each of them.
    #[must_use]
    pub fn prior_variance(&self) -> &[f64] {
        &self.prior_variance
    }

    /// `log det P - log det P0`, of the posterior's and the prior's precision: what the marginal likelihood of
    /// the prior needs. With a tolerance, that of the precision kept (a lower bound).
    #[must_use]
    pub const fn log_determinant_ratio(&self) -> f64 {
        self.log_determinant_ratio
    }

    /// The proven bound e: each marginal variance, and the variance of any combination of parameters, lies
    /// between the exact value and (1 + e) times that, rounding aside. 0 for an exact posterior.
    #[must_use]
    pub const fn certificate(&self) -> f64 {
        self.certificate
    }

    /// Columns of the factor: how many directions the data determines, as far as they were kept.
    #[must_use]
    pub const fn rank(&self) -> usize {
        match &self.covariance {
            Covariance::Independent { .. } => 0,
            Covariance::Reduction { rank, .. } | Covariance::Whole { rank, .. } => *rank,
        }
    }

    /// The variance of each selected parameter: the diagonal of the covariance.
    #[must_use]
    pub fn marginal_variances(&self) -> Vec<f64> {
        let mut variances = self.prior_variance.clone();
        match &self.covariance {
            Covariance::Independent { variance } => variances.copy_from_slice(variance),
            Covariance::Reduction { rank, factor } => {
                for (&position, row) in self.live.order.iter().zip(factor.chunks_exact((*rank).max(1))) {
                    let prior = variances[position];
                    let reduction: f64 = row.iter().map(|value| value * value).sum();
                    // Below the rounding of the difference nothing is known.
                    let variance = prior - reduction;
                    let least = prior * f64::EPSILON;
                    // Not `max`, which would drop NaN.
                    variances[position] = if variance < least { least } else { variance };
                }
            }
            Covariance::Whole { rank, factor } => {
                for (&position, row) in self.live.order.iter().zip(factor.chunks_exact((*rank).max(1))) {
                    variances[position] = row.iter().map(|value| value * value).sum();
                }
            }
        }
        variances
    }

    /// The covariance, multiplied out: `[selected, selected]`.
    ///
    /// Cost: the square of the subnetwork's size times [`Self::rank`], and memory twice the result.
    #[must_use]
    pub fn covariance(&self) -> Vec<f64> {
        let size = self.selected.len();
        let mut covariance = vec![0.0; size * size];
        let live = self.live.columns();
        let mut block = vec![0.0; live * live];
        let sign = match &self.covariance {
            Covariance::Independent { .. } => 0.0,
            Covariance::Reduction { .. } => -1.0,
            Covariance::Whole { .. } => 1.0,
        };
        if let Covariance::Reduction { rank, factor } | Covariance::Whole { rank, factor } = &self.covariance
            && *rank > 0
        {
            let factor = rows(factor, live, *rank);
            multiply_add_lower(rows_mut(&mut block, live, live).transpose_mut(), factor, factor.transpose());
            mirror(&mut block, live);
            for (&a, row) in self.live.order.iter().zip(block.chunks_exact(live)) {
                for (&b, &value) in self.live.order.iter().zip(row) {
                    covariance[a * size + b] = sign * value;
                }
            }
        }
        let marginal = self.marginal_variances();
        for (position, &variance) in marginal.iter().enumerate() {
            covariance[position * size + position] = variance;
        }
        covariance
    }

    /// The distribution of the linearised network's outputs for each of the samples `inputs`, in batches.
    ///
    /// Cost for each sample: one backward pass an output, and (columns + outputs x units) x [`Self::rank`]
    /// multiplications.
    pub(crate) fn outputs(
        &self,
        network: &dyn LinearisedNetwork,
        parameters: &[f64],
        inputs: &[f64],
    ) -> Result<OutputDistribution, PosteriorError> {
        let outputs = network.outputs();
        let mut found = OutputDistribution { outputs, mean: Vec::new(), covariance: Vec::new() };
        let independent = self.variance_without_factor();
        let mut collector = Collector::new(network, parameters, &self.subnetwork, TEST_BATCH);
        let samples = inputs.len() / network.inputs();
        let sign = if matches!(self.covariance, Covariance::Whole { .. }) { 1.0 } else { -1.0 };
        let mut projector = match &self.covariance {
            Covariance::Reduction { rank, factor } | Covariance::Whole { rank, factor } if *rank > 0 => {
                Some(network.algebra().projector(factor, *rank, self.upper, samples)?)
            }
            _ => None,
        };
        let all_live = !self.keep.contains(&false);
        for batch in collector.batches(inputs) {
            let (mean, jacobian) = collector.collect(batch, None, None)?;
            let mut blocks = jacobian.independent_covariances(&self.subnetwork, &independent);
            if let Some(projector) = &mut projector {
                let restricted = (!all_live).then(|| jacobian.restrict(&self.subnetwork, &self.keep));
                let own = restricted.as_ref().unwrap_or(&jacobian);
                projector.add_outer_products(&JacobianFactors::new(own, &self.live), sign, &mut blocks)?;
            }
            for block in blocks.chunks_exact_mut(outputs * outputs) {
                symmetrise(block, outputs);
            }
            found.mean.extend(mean);
            found.covariance.extend(blocks);
        }
        Ok(found)
    }

    /// For each column, the variance that does not come from the factor.
    fn variance_without_factor(&self) -> Vec<f64> {
        match &self.covariance {
            Covariance::Independent { variance } => self.subnetwork.sorted(variance),
            Covariance::Reduction { .. } => self.subnetwork.sorted(&self.prior_variance),
            Covariance::Whole { .. } => {
                let prior = self.subnetwork.sorted(&self.prior_variance);
                prior.iter().zip(&self.keep).map(|(&prior, &live)| if live { 0.0 } else { prior }).collect()
            }
        }
    }
}

/// Makes a square matrix symmetric to the bit, and its diagonal not negative.
fn symmetrise(matrix: &mut [f64], size: usize) {
    for row in 0..size {
        for column in 0..row {
            let mean = 0.5 * (matrix[row * size + column] + matrix[column * size + row]);
            matrix[row * size + column] = mean;
            matrix[column * size + row] = mean;
        }
        let diagonal = &mut matrix[row * size + row];
        if *diagonal < 0.0 {
            *diagonal = 0.0;
        }
    }
}

/// The generalised Gauss-Newton matrix over the parameters `selected` (ascending flat indices), summed over the data:
/// `[selected, selected]`, symmetric. Cost: a backward pass for each output, and samples x selected^2 / 2
/// multiplications.
///
/// # Errors
/// Indices that do not ascend or lie beyond the network's parameters; a network that cannot be evaluated.
pub fn ggn(problem: &Problem<'_>, selected: &[usize]) -> Result<Vec<f64>, PosteriorError> {
    let network = &**problem.network();
    check::check_selected(network, selected, &vec![1.0; selected.len()])?;
    let subnetwork = columns_of(network, selected);
    let size = subnetwork.columns();
    let mut normal = vec![0.0; size * size];
    let mut collector = Collector::new(network, problem.parameters(), &subnetwork, problem.samples());
    for batch in collector.batches(problem.inputs()) {
        let (_, jacobian) = collector.collect(batch, Some(problem.likelihood()), None)?;
        jacobian.add_normal(&subnetwork, &mut normal);
    }
    mirror(&mut normal, size);
    let mut ggn = vec![0.0; size * size];
    for (&a, row) in subnetwork.order.iter().zip(normal.chunks_exact(size.max(1))) {
        for (&b, &value) in subnetwork.order.iter().zip(row) {
            ggn[a * size + b] = value;
        }
    }
    Ok(ggn)
}
