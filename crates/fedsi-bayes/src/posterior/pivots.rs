//! Pivoted Cholesky factorisations that stop at a tolerance.

use faer::MatMut;
use fedsi_nn::vectorised;

use crate::dense::{multiply_add, multiply_subtract_lower, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::{ColumnSet, WeightedJacobian};

/// Rows proposed as pivots at once: their columns of the matrix are computed together.
const PROPOSED: usize = 32;

/// A proposed pivot is taken if what is left of it is at least this part of the largest of all.
const ACCEPTED: f64 = 0.25;

/// A pivoted Cholesky factor of `B B'`, column after column, and a bound on what it leaves.
pub(super) type Pivots = Option<(Vec<f64>, f64)>;

/// With `B B'` in memory: what is left of it is known entry by entry, and its Frobenius norm bounds its largest
/// eigenvalue far more closely than its trace does.
pub(super) fn pivots_of_gram(
    jacobian: &WeightedJacobian,
    subnetwork: &ColumnSet,
    tolerance: f64,
    limit: f64,
) -> Result<Pivots, PosteriorError> {
    let size = jacobian.rows();
    let mut gram = jacobian.gram(subnetwork);
    let mut left: Vec<f64> = (0..size).map(|index| gram[index * size + index]).collect();
    let total = left.iter().copied().fold(0.0, f64::max);
    let mut basis: Vec<f64> = Vec::new();
    let mut progress = Progress::new(jacobian, subnetwork, 0.5 * (size * size) as f64, limit);
    loop {
        let residual = frobenius(&gram, size);
        if !residual.is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        if residual <= tolerance {
            return Ok(Some((basis, residual)));
        }
        let rank = basis.len() / size;
        // Of the whole, subtractions leave no digits below this.
        if residual <= 1e-14 * total * (size as f64).sqrt() || progress.hopeless(rank, residual, tolerance) {
            return Ok(None);
        }
        let proposed = propose(&left);
        let mut block = columns_of(&gram, &proposed, size);
        eliminate(&mut block, &proposed, &mut left, &mut basis);
        let taken = basis.len() / size - rank;
        if taken == 0 {
            return Ok(None); // nothing left that rounding would let through
        }
        let own = rows(&basis[rank * size..], taken, size);
        let whole = MatMut::from_column_major_slice_mut(&mut gram, size, size);
        multiply_subtract_lower(whole, own.transpose(), own);
    }
}

/// A pivoted Cholesky factor L of a positive semidefinite matrix, that can be extended: what `L L'` leaves of the matrix
/// is positive semidefinite.
pub(super) struct GrowingFactor<'a> {
    /// The lower triangle, column after column.
    matrix: &'a [f64],
    size: usize,
    /// The diagonal of what is left.
    left: Vec<f64>,
    /// The columns of L, one after the other.
    factor: Vec<f64>,
    /// What rounding leaves of a diagonal.
    rounding: f64,
}

impl<'a> GrowingFactor<'a> {
    /// Of rank 0.
    pub(super) fn new(matrix: &'a [f64], size: usize) -> Result<Self, PosteriorError> {
        let left: Vec<f64> = (0..size).map(|index| matrix[index * size + index]).collect();
        if !left.iter().sum::<f64>().is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        let rounding = 1e-13 * left.iter().copied().fold(0.0, f64::max);
        Ok(Self { matrix, size, left, factor: Vec::new(), rounding })
    }

    /// Takes further pivots until there are `rank`, or only rounding is left; whether there is more than that.
    ///
    /// Cost: size x rank multiplications for each pivot.
    pub(super) fn extend(&mut self, rank: usize) -> bool {
        loop {
            let largest = self.left.iter().copied().fold(0.0, f64::max);
            if largest <= self.rounding {
                return false;
            }
            if self.rank() >= rank {
                return true;
            }
            let proposed = propose(&self.left);
            let mut block = columns_of(self.matrix, &proposed, self.size);
            subtract(&mut block, &proposed, &self.factor, self.size);
            eliminate(&mut block, &proposed, &mut self.left, &mut self.factor);
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.factor.len() / self.size.max(1)
    }

    /// The columns of L, one after the other.
    pub(super) fn factor(&self) -> &[f64] {
        &self.factor
    }
}

/// Columns of a symmetric matrix, of which the lower triangle is given, column after column.
fn columns_of(matrix: &[f64], chosen: &[usize], size: usize) -> Vec<f64> {
    let mut block = Vec::with_capacity(chosen.len() * size);
    for &row in chosen {
        block.extend((0..row).map(|column| matrix[column * size + row]));
        block.extend_from_slice(&matrix[row * size + row..(row + 1) * size]);
    }
    block
}

/// Takes the part of earlier pivots off the columns of proposed rows.
fn subtract(block: &mut [f64], proposed: &[usize], before: &[f64], size: usize) {
    let rank = before.len() / size;
    if rank == 0 {
        return;
    }
    let mut at = Vec::with_capacity(proposed.len() * rank);
    for &row in proposed {
        at.extend(before.iter().skip(row).step_by(size));
    }
    let (at, before) = (rows(&at, proposed.len(), rank), rows(before, rank, size));
    multiply_add(rows_mut(block, proposed.len(), size), -1.0, at, before);
}

/// With a block of columns of `B B'` at a time, for data too large for the whole: bounds by the trace.
pub(super) fn pivots_by_columns(
    jacobian: &WeightedJacobian,
    subnetwork: &ColumnSet,
    tolerance: f64,
    limit: f64,
) -> Result<Pivots, PosteriorError> {
    let size = jacobian.rows();
    let mut left = jacobian.row_squares(subnetwork);
    let total: f64 = left.iter().sum();
    if !total.is_finite() {
        return Err(PosteriorError::NotPositive);
    }
    let mut basis: Vec<f64> = Vec::new();
    let products = jacobian.samples() * subnetwork.columns() + size * subnetwork.units.len();
    let mut progress = Progress::new(jacobian, subnetwork, products as f64, limit);
    loop {
        let residual: f64 = left.iter().sum();
        if residual <= tolerance {
            return Ok(Some((basis, residual)));
        }
        let rank = basis.len() / size;
        if residual <= 1e-13 * total || progress.hopeless(rank, residual, tolerance) {
            return Ok(None);
        }
        let proposed = propose(&left);
        let mut block = vec![0.0; proposed.len() * size];
        jacobian.gram_columns(subnetwork, &proposed, 0, &mut block, size);
        subtract(&mut block, &proposed, &basis, size);
        eliminate(&mut block, &proposed, &mut left, &mut basis);
    }
}

/// The Frobenius norm of a symmetric matrix, from its lower triangle, column after column.
fn frobenius(matrix: &[f64], size: usize) -> f64 {
    let mut sum = 0.0;
    for (index, column) in matrix.chunks_exact(size.max(1)).enumerate() {
        let below = vectorised(
            #[inline(always)]
            || {
                let mut strands = [0.0; 16];
                let blocks = column[index + 1..].chunks_exact(16);
                let rest: f64 = blocks.remainder().iter().map(|value| value * value).sum();
                for block in blocks {
                    for (strand, &value) in strands.iter_mut().zip(block) {
                        *strand += value * value;
                    }
                }
                strands.iter().sum::<f64>() + rest
            },
        );
        sum += 2.0 * below + column[index] * column[index];
    }
    sum.sqrt()
}

/// Whether a factorisation under way is worth its end.
struct Progress {
    size: f64,
    columns: f64,
    each: f64,
    most: usize,
    limit: f64,
    last: Option<(usize, f64)>,
}

impl Progress {
    /// `pivot` is what finding one pivot costs, besides the projection that follows.
    fn new(jacobian: &WeightedJacobian, subnetwork: &ColumnSet, pivot: f64, limit: f64) -> Self {
        let (size, columns) = (jacobian.rows() as f64, subnetwork.columns() as f64);
        let each = pivot + jacobian.samples() as f64 * columns + size * subnetwork.units.len() as f64;
        let most = jacobian.rows().min(subnetwork.columns());
        Self { size, columns, each, most, limit, last: None }
    }

    /// What is left falls more and more slowly: its last rate promises the least rank there can be.
    fn hopeless(&mut self, rank: usize, residual: f64, tolerance: f64) -> bool {
        let mut expected = (rank + 1) as f64;
        if let Some((before, was)) = self.last.filter(|&(before, _)| before < rank) {
            let rate = (was / residual).ln() / (rank - before) as f64;
            if rate > 0.0 {
                expected = rank as f64 + (residual / tolerance).ln() / rate;
            }
        }
        self.last = Some((rank, residual));
        let cost = expected * self.each + expected * expected * (self.size + 1.5 * self.columns);
        self.limit.is_finite() && (cost > self.limit || rank >= self.most)
    }
}

/// The rows with most left, ascending.
fn propose(left: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..left.len()).collect();
    let count = PROPOSED.min(order.len());
    let largest_first = |&a: &usize, &b: &usize| left[b].total_cmp(&left[a]).then(a.cmp(&b));
    if count < order.len() {
        order.select_nth_unstable_by(count, largest_first);
        order.truncate(count);
    }
    order.sort_unstable();
    order
}

/// Takes pivots among the proposed rows, the largest first, as long as they are large enough.
fn eliminate(block: &mut [f64], proposed: &[usize], left: &mut [f64], basis: &mut Vec<f64>) {
    let size = left.len();
    let mut open: Vec<usize> = (0..proposed.len()).collect();
    loop {
        let largest = left.iter().copied().fold(0.0, f64::max);
        let best = open
            .iter()
            .copied()
            .enumerate()
            .max_by(|a, b| left[proposed[a.1]].total_cmp(&left[proposed[b.1]]).then(b.1.cmp(&a.1)));
        let Some((place, chosen)) = best else { return };
        let pivot = left[proposed[chosen]];
        if pivot <= 0.0 || pivot < ACCEPTED * largest {
            return;
        }
        open.swap_remove(place);
        let root = pivot.sqrt();
        let column: Vec<f64> = block[chosen * size..][..size].iter().map(|value| value / root).collect();
        for (left, value) in left.iter_mut().zip(&column) {
            *left = (*left - value * value).max(0.0);
        }
        left[proposed[chosen]] = 0.0;
        for &other in &open {
            let factor = column[proposed[other]];
            for (value, own) in block[other * size..][..size].iter_mut().zip(&column) {
                *value -= factor * own;
            }
        }
        basis.extend(column);
    }
}
