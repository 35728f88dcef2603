//! Linear algebra by faer, on the caller's thread.

use super::{JacobianFactors, LinearAlgebra, NormalMatrix, Projector};
use crate::dense::{cholesky, eigen, inverse_factor, multiply, multiply_add, rows, rows_mut};
use crate::error::PosteriorError;

/// Pairs of outputs whose covariances are computed at once.
const PAIRS: usize = 64;

/// faer on one thread, with one order of summation: clients are what runs in parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleThread;

impl LinearAlgebra for SingleThread {
    fn normal_matrix(
        &self,
        columns: usize,
        _samples: usize,
        _rows: usize,
    ) -> Result<Box<dyn NormalMatrix>, PosteriorError> {
        Ok(Box::new(InMemory { size: columns, values: vec![0.0; columns * columns] }))
    }

    fn inverse_factor(&self, mut matrix: Vec<f64>, size: usize) -> Result<(f64, Vec<f64>), PosteriorError> {
        let log_determinant = cholesky(&mut matrix, size)?;
        Ok((log_determinant, inverse_factor(&matrix, size)))
    }

    fn eigen(&self, matrix: &[f64], size: usize) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        eigen(matrix, size)
    }

    fn projector<'a>(
        &'a self,
        factor: &'a [f64],
        rank: usize,
        upper: bool,
        _samples: usize,
    ) -> Result<Box<dyn Projector + 'a>, PosteriorError> {
        Ok(Box::new(InBlocks { factor, rank, upper, product: Vec::new() }))
    }
}

/// The lower triangle, column after column.
#[derive(Debug)]
struct InMemory {
    size: usize,
    values: Vec<f64>,
}

impl NormalMatrix for InMemory {
    fn add(&mut self, jacobian: &JacobianFactors<'_>) -> Result<(), PosteriorError> {
        jacobian.jacobian.add_normal(jacobian.subnetwork, &mut self.values);
        Ok(())
    }

    fn diagonal(&self) -> Result<Vec<f64>, PosteriorError> {
        Ok(self.values.iter().step_by(self.size + 1).copied().collect())
    }

    fn inverse_factor(&self, scale: f64) -> Result<(f64, Vec<f64>), PosteriorError> {
        let mut matrix: Vec<f64> = self.values.iter().map(|value| scale * value).collect();
        matrix.iter_mut().step_by(self.size + 1).for_each(|value| *value += 1.0);
        SingleThread.inverse_factor(matrix, self.size)
    }

    fn eigen(&self) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        eigen(&self.values, self.size)
    }

    fn into_lower(self: Box<Self>) -> Result<Vec<f64>, PosteriorError> {
        Ok(self.values)
    }
}

/// `J W`, by the structure of the Jacobian.
struct InBlocks<'a> {
    factor: &'a [f64],
    rank: usize,
    upper: bool,
    product: Vec<f64>,
}

impl InBlocks<'_> {
    fn multiply(&mut self, jacobian: &JacobianFactors<'_>) {
        let JacobianFactors { jacobian, subnetwork } = jacobian;
        jacobian.times(subnetwork, self.factor, self.rank, self.upper, &mut self.product);
    }
}

impl Projector for InBlocks<'_> {
    fn add_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        sign: f64,
        blocks: &mut [f64],
    ) -> Result<(), PosteriorError> {
        let count = jacobian.rows().checked_div(jacobian.samples()).unwrap_or(0);
        if self.rank > 0 && count > 0 {
            self.multiply(jacobian);
            let own = self.product.chunks_exact(count * self.rank);
            for (block, own) in blocks.chunks_exact_mut(count * count).zip(own) {
                let own = rows(own, count, self.rank);
                multiply_add(rows_mut(block, count, count), sign, own, own.transpose());
            }
        }
        Ok(())
    }

    fn weighted_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        weights: &[f64],
        count: usize,
    ) -> Result<Vec<f64>, PosteriorError> {
        self.multiply(jacobian);
        let outputs = jacobian.rows().checked_div(jacobian.samples()).unwrap_or(0);
        Ok(weighted_products(&self.product, jacobian.samples(), outputs, weights, count))
    }
}

/// For each scale and sample the sum over directions of weight times outer product: `[scales, samples, outputs,
/// outputs]`.
fn weighted_products(
    product: &[f64],
    samples: usize,
    outputs: usize,
    weights: &[f64],
    scales: usize,
) -> Vec<f64> {
    let mut all = vec![0.0; scales * samples * outputs * outputs];
    let rank = weights.len().checked_div(scales).unwrap_or(0);
    if rank == 0 {
        return all;
    }
    let weights = rows(weights, rank, scales);
    let pairs: Vec<(usize, usize)> = (0..outputs).flat_map(|a| (0..=a).map(move |b| (a, b))).collect();
    let mut outer = vec![0.0; PAIRS.min(pairs.len()) * rank];
    let mut sums = vec![0.0; PAIRS.min(pairs.len()) * scales];
    for (sample, own) in product.chunks_exact(outputs * rank).enumerate() {
        for pairs in pairs.chunks(PAIRS) {
            for (into, &(a, b)) in outer.chunks_exact_mut(rank).zip(pairs) {
                let (left, right) = (&own[a * rank..][..rank], &own[b * rank..][..rank]);
                for ((value, &left), &right) in into.iter_mut().zip(left).zip(right) {
                    *value = left * right;
                }
            }
            multiply(rows_mut(&mut sums, pairs.len(), scales), rows(&outer, pairs.len(), rank), weights);
            for (sums, &(a, b)) in sums.chunks_exact(scales).zip(pairs) {
                for (scale, &sum) in sums.iter().enumerate() {
                    let block = &mut all[(scale * samples + sample) * outputs * outputs..];
                    block[a * outputs + b] = sum;
                    block[b * outputs + a] = sum;
                }
            }
        }
    }
    all
}
