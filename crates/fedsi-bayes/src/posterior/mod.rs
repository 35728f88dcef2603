//! The Gaussian posterior over a subnetwork.

mod check;
mod factors;
mod family;
mod projection;
#[cfg(test)]
mod tests;

pub use factors::{Covariance, Factors};
pub use family::{Form, PosteriorFamily};

use fedsi_nn::Network;

use crate::dense::{mirror, multiply_add_lower, rows, rows_mut};
use crate::jacobian::{Collector, ColumnSet};
use crate::{Curvature, Likelihood, OutputDistribution, PosteriorError};

/// Largest batch of test samples.
const TEST_BATCH: usize = 128;

/// A Gaussian over selected parameters of a network, around the point it was linearised at: its precision is the
/// GGN summed over the data plus the prior's precision.
///
/// The covariance is held in factors: as a reduction of the prior, `diag(g) - W W'`, where the data has less to
/// say than there are parameters, or as `W W'`. Parameters on which the data has no bearing at all (no
/// curvature) keep their prior, exactly, and take no part in the factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    selected: Vec<usize>,
    prior_variance: Vec<f64>,
    /// All of the selected parameters.
    subnetwork: ColumnSet,
    /// Those the covariance speaks about.
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
    /// The posterior over the parameters `selected` (ascending indices into the flat parameters, of any layers)
    /// with independent priors of variance `prior_variance`, one for each, given the samples `inputs`.
    ///
    /// With `tolerance` 0 it is exact: computed on the side of the samples or of the parameters, whichever takes
    /// fewer operations (see [`PosteriorFamily`]). With a positive tolerance, only as many directions are kept
    /// as it takes for every marginal variance `v` to come out between `v` and `(1 + tolerance) v`; after training,
    /// when most samples are classified with confidence, that is a small part of the work.
    ///
    /// # Errors
    /// If lengths, indices, variances or the tolerance make no sense, or the network's derivatives are not
    /// finite.
    pub fn fit(
        network: &Network,
        parameters: &[f64],
        inputs: &[f64],
        likelihood: &Likelihood,
        selected: &[usize],
        prior_variance: &[f64],
        tolerance: f64,
    ) -> Result<Self, PosteriorError> {
        PosteriorFamily::new(network, parameters, inputs, likelihood, selected, prior_variance, tolerance)?
            .into_posterior()
    }

    /// Independent marginals `1 / (h + 1 / g)` with h the diagonal of the GGN: no correlations, at the cost of a
    /// matrix product, for any number of parameters.
    ///
    /// # Errors
    /// As for [`Self::fit`].
    pub fn diagonal(
        network: &Network,
        parameters: &[f64],
        inputs: &[f64],
        likelihood: &Likelihood,
        selected: &[usize],
        prior_variance: &[f64],
    ) -> Result<Self, PosteriorError> {
        check::check(network, parameters, inputs, likelihood, selected, prior_variance)?;
        let range = match (selected.first(), selected.last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        };
        let ggn = Curvature::diagonal(network, parameters, inputs, likelihood, range.clone()).ggn;
        let own: Vec<f64> = selected.iter().map(|&index| ggn[index - range.start]).collect();
        Self::independent_of(network, selected, prior_variance, &own)
    }

    /// [`Self::diagonal`] where the diagonal of the GGN is known: `curvature` has a value for each selected
    /// parameter.
    ///
    /// # Errors
    /// As for [`Self::fit`].
    pub fn independent_of(
        network: &Network,
        selected: &[usize],
        prior_variance: &[f64],
        curvature: &[f64],
    ) -> Result<Self, PosteriorError> {
        check::check_selection(network, selected, prior_variance)?;
        if curvature.len() != selected.len() {
            let (expected, found) = (selected.len(), curvature.len());
            return Err(PosteriorError::Length { what: "curvature", expected, found });
        }
        let mut log_determinant_ratio = 0.0;
        let mut variance = Vec::with_capacity(selected.len());
        for (&curvature, &prior) in curvature.iter().zip(prior_variance) {
            log_determinant_ratio += (curvature * prior).ln_1p();
            variance.push(prior / curvature.mul_add(prior, 1.0));
        }
        if !log_determinant_ratio.is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        let subnetwork = ColumnSet::new(network, selected);
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

    /// Columns of the factor: how many directions the data has a say in, as far as they were kept.
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
                    // Below the rounding of the difference there is nothing to tell.
                    let variance = prior - reduction;
                    let least = prior * f64::EPSILON;
                    // Not `max`, which would make a number of a NaN.
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
    #[must_use]
    pub fn outputs(&self, network: &Network, parameters: &[f64], inputs: &[f64]) -> OutputDistribution {
        let outputs = network.outputs();
        let mut found = OutputDistribution { outputs, mean: Vec::new(), covariance: Vec::new() };
        let independent = self.variance_without_factor();
        let mut collector = Collector::new(network, parameters, &self.subnetwork, TEST_BATCH);
        let mut product = Vec::new();
        for batch in collector.batches(inputs) {
            let (mean, jacobian) = collector.collect(batch, None, None);
            let mut blocks = jacobian.independent_covariances(&self.subnetwork, &independent);
            if let Covariance::Reduction { rank, factor } | Covariance::Whole { rank, factor } =
                &self.covariance
                && *rank > 0
            {
                let sign = if matches!(self.covariance, Covariance::Whole { .. }) { 1.0 } else { -1.0 };
                if self.keep.contains(&false) {
                    let jacobian = jacobian.restrict(&self.subnetwork, &self.keep);
                    jacobian.times(&self.live, factor, *rank, self.upper, &mut product);
                } else {
                    jacobian.times(&self.live, factor, *rank, self.upper, &mut product);
                }
                let own = product.chunks_exact(outputs * rank);
                for (block, own) in blocks.chunks_exact_mut(outputs * outputs).zip(own) {
                    add_outer(block, sign, own, *rank);
                }
            }
            for block in blocks.chunks_exact_mut(outputs * outputs) {
                symmetrise(block, outputs);
            }
            found.mean.extend(mean);
            found.covariance.extend(blocks);
        }
        found
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

/// `block += sign * own own'`.
fn add_outer(block: &mut [f64], sign: f64, own: &[f64], rank: usize) {
    let count = own.len() / rank;
    let own = rows(own, count, rank);
    crate::dense::multiply_add(rows_mut(block, count, count), sign, own, own.transpose());
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

/// The generalised Gauss-Newton matrix over the parameters `selected`, summed over the data: `[selected,
/// selected]`, symmetric.
///
/// # Errors
/// As for [`Posterior::fit`].
pub fn ggn(
    network: &Network,
    parameters: &[f64],
    inputs: &[f64],
    likelihood: &Likelihood,
    selected: &[usize],
) -> Result<Vec<f64>, PosteriorError> {
    let prior = vec![1.0; selected.len()];
    check::check(network, parameters, inputs, likelihood, selected, &prior)?;
    let subnetwork = ColumnSet::new(network, selected);
    let size = subnetwork.columns();
    let mut normal = vec![0.0; size * size];
    let mut collector = Collector::new(network, parameters, &subnetwork, inputs.len() / network.inputs());
    for batch in collector.batches(inputs) {
        collector.collect(batch, Some(likelihood), None).1.add_normal(&subnetwork, &mut normal);
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
