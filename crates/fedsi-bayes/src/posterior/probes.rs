//! Outputs whose variances tell how many directions a search over prior variances needs.

use super::projection::Projection;
use crate::collect::Collector;
use crate::dense::{cholesky, inverse_factor, multiply, multiply_add, rows, rows_mut, symmetric_times};
use crate::error::PosteriorError;
use crate::jacobian::ColumnSet;
use crate::problem::Problem;

/// How many there are at most.
const COUNT: usize = 64;

/// Combinations of outputs of some of the samples that are to be predicted, as gradients in the columns, in units
/// of the prior's standard deviations, and the scale of the prior variances at which their variances are compared.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    /// `[columns, count]`.
    gradients: Vec<f64>,
    count: usize,
    scale: f64,
}

impl Probes {
    /// Every output where that makes no more than 64, else one random combination (signs) of the outputs of each of 64
    /// samples, evenly spread over all.
    pub(super) fn new(
        problem: &Problem<'_>,
        subnetwork: &ColumnSet,
        deviation: &[f64],
        inputs: &[f64],
        scale: f64,
    ) -> Result<Self, PosteriorError> {
        let (network, parameters) = (&**problem.network(), problem.parameters());
        let (width, outputs) = (network.inputs(), network.outputs());
        let samples = inputs.len() / width;
        let each = samples * outputs <= COUNT;
        let taken = if each { samples } else { samples.min(COUNT) };
        let count = if each { samples * outputs } else { taken };
        let columns = subnetwork.columns();
        let mut gradients = vec![0.0; columns * count];
        let mut collector = Collector::new(network, parameters, subnetwork, taken);
        let chosen: Vec<f64> = (0..taken)
            .flat_map(|index| &inputs[index * samples / taken * width..][..width])
            .copied()
            .collect();
        let mut done = 0;
        for batch in collector.batches(&chosen) {
            let (_, jacobian) = collector.collect(batch, None, Some(deviation))?;
            let own = jacobian.samples();
            let breadth = if each { own * outputs } else { own };
            let mut signs = vec![0.0; jacobian.rows() * breadth];
            for row in 0..jacobian.rows() {
                let (column, sign) =
                    if each { (row, 1.0) } else { (row / outputs, sign(row + done * outputs)) };
                signs[row * breadth + column] = sign;
            }
            let found = jacobian.transpose_times(subnetwork, rows(&signs, jacobian.rows(), breadth), false);
            let from = if each { done * outputs } else { done };
            for (into, found) in gradients.chunks_exact_mut(count).zip(found.chunks_exact(breadth)) {
                into[from..][..breadth].copy_from_slice(found);
            }
            done += own;
        }
        Ok(Self { gradients, count, scale })
    }

    /// The mean over the probes of a bound e for each: its variance under a projection V of the data's contribution A
    /// (its lower triangle column after column) lies between the exact one and `(1 + e)` times that.
    ///
    /// With `M = I + c V V'`, j a gradient and `x = M^-1 j`, the variance under V is `c j' x`. For `A = V V' + E` the
    /// exact one, `c j' (M + c E)^-1 j`, is at least `c (j' x)^2 / (j' x + c x' E x)` by the Cauchy-Schwarz inequality.
    ///
    /// Cost: columns x (columns + rank) x probes and rank^3 / 3 multiplications.
    pub(super) fn excess(&self, normal: &[f64], projection: &Projection) -> Result<f64, PosteriorError> {
        let (count, rank, scale) = (self.count, projection.rank, self.scale);
        if count == 0 {
            return Ok(0.0);
        }
        let columns = self.gradients.len() / count;
        let gradients = rows(&self.gradients, columns, count);
        let mut solution = self.gradients.clone();
        // V' x = (I + c V' V)^-1 V' j.
        let mut along = vec![0.0; rank * count];
        if rank > 0 {
            let mut factor: Vec<f64> = projection.core.iter().map(|value| scale * value).collect();
            for index in 0..rank {
                factor[index * rank + index] += 1.0;
            }
            cholesky(&mut factor, rank)?;
            let inverse = inverse_factor(&factor, rank);
            let inverse = rows(&inverse, rank, rank);
            let spread = rows(&projection.spread, columns, rank);
            let (mut first, mut second) = (along.clone(), along.clone());
            multiply(rows_mut(&mut first, rank, count), spread.transpose(), gradients);
            multiply(rows_mut(&mut second, rank, count), inverse.transpose(), rows(&first, rank, count));
            multiply(rows_mut(&mut along, rank, count), inverse, rows(&second, rank, count));
            multiply_add(rows_mut(&mut solution, columns, count), -scale, spread, rows(&along, rank, count));
        }
        let image = symmetric_times(normal, &solution, columns, count);
        let mut left = column_dots(&image, &solution, count);
        for (left, part) in left.iter_mut().zip(column_dots(&along, &along, count)) {
            *left -= part;
        }
        let variances = column_dots(&self.gradients, &solution, count);
        let excess = |(left, variance): (f64, f64)| {
            if variance > 0.0 { scale * left.max(0.0) / variance } else { 0.0 }
        };
        Ok(left.into_iter().zip(variances).map(excess).sum::<f64>() / count as f64)
    }
}

/// The inner products of the columns of two matrices of `count` columns.
fn column_dots(a: &[f64], b: &[f64], count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count];
    for (a, b) in a.chunks_exact(count).zip(b.chunks_exact(count)) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums
}

/// One of two signs, drawn by a hash of the number (`SplitMix64`).
const fn sign(number: usize) -> f64 {
    let mut bits = (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    if (bits ^ (bits >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
}
