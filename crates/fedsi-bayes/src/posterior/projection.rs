//! The directions that matter at a tolerance, and a bound on the others.
//!
//! With `A = B' B` in units of the prior, leaving out a part `A - A_r` that is positive semidefinite and at most
//! `e I` turns each variance `v` into one between `v` and `(1 + e) v`. A pivoted Cholesky factorisation of
//! `B B'` finds rows whose span takes in all of it but a rest E. Its factor may not stand in for B (that breaks
//! the bound on both sides), but its span Q gives `A_r = B' Q Q' B`, which keeps it: the eigenvalues of `A - A_r`
//! are those of `(I - Q Q') E (I - Q Q')`, so that any norm of E bounds them. A pivoted factor L of A itself needs no
//! such care: `A - L L'` is what is left of A, positive semidefinite.

use super::pivots::{GrowingFactor, pivots_by_columns, pivots_of_gram};
use super::probes::Probes;
use crate::dense::{cholesky, inverse_factor, multiply, multiply_add_lower, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::{ColumnSet, WeightedJacobian};

/// Up to this many rows `B B'` is kept in memory.
pub(super) const GRAM_ROWS: usize = 5120;

/// Directions with which a factor of `B' B` is first tried.
const FIRST_RANK: usize = 128;

/// V with `A_r = V V'`: `B' Q` for an orthonormal Q, or a factor of A.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    /// V: `[columns, rank]`.
    pub(super) spread: Vec<f64>,
    /// `V' V`: its lower triangle, column after column.
    pub(super) core: Vec<f64>,
    pub(super) rank: usize,
}

impl Projection {
    /// Leaves out no eigenvalue above `tolerance`; returns the bound proven. Nothing, if that takes more than
    /// `limit` multiplications, or is beyond double precision.
    pub(super) fn new(
        jacobian: &WeightedJacobian,
        subnetwork: &ColumnSet,
        tolerance: f64,
        limit: f64,
    ) -> Result<Option<(Self, f64)>, PosteriorError> {
        Self::with_pivots(jacobian, subnetwork, tolerance, limit, jacobian.rows() > GRAM_ROWS)
    }

    /// With the search for pivots chosen by the caller.
    pub(super) fn with_pivots(
        jacobian: &WeightedJacobian,
        subnetwork: &ColumnSet,
        tolerance: f64,
        limit: f64,
        by_columns: bool,
    ) -> Result<Option<(Self, f64)>, PosteriorError> {
        let found = if by_columns {
            pivots_by_columns(jacobian, subnetwork, tolerance, limit)?
        } else {
            pivots_of_gram(jacobian, subnetwork, tolerance, limit)?
        };
        let Some((basis, residual)) = found else { return Ok(None) };
        let projection = Self::on_span(jacobian, subnetwork, basis)?;
        Ok(projection.map(|projection| (projection, residual)))
    }

    /// On the span of a factor's columns; nothing, if they are dependent in double precision.
    fn on_span(
        jacobian: &WeightedJacobian,
        subnetwork: &ColumnSet,
        mut basis: Vec<f64>,
    ) -> Result<Option<Self>, PosteriorError> {
        let (size, columns) = (jacobian.rows(), subnetwork.columns());
        let rank = basis.len() / size.max(1);
        if rank == 0 {
            return Ok(Some(Self { spread: Vec::new(), core: Vec::new(), rank }));
        }
        // Scaled to unit length, the factor's columns are well conditioned: pivoting has sorted them by size.
        for column in basis.chunks_exact_mut(size) {
            let length = column.iter().map(|value| value * value).sum::<f64>().sqrt();
            for value in column {
                *value /= length;
            }
        }
        let basis = rows(&basis, rank, size);
        let mut overlap = vec![0.0; rank * rank];
        multiply_add_lower(rows_mut(&mut overlap, rank, rank).transpose_mut(), basis, basis.transpose());
        if cholesky(&mut overlap, rank).is_err() {
            return Ok(None);
        }
        let orthogonal = inverse_factor(&overlap, rank);
        let raw = jacobian.transpose_times(subnetwork, basis.transpose(), false);
        let mut spread = vec![0.0; columns * rank];
        multiply(
            rows_mut(&mut spread, columns, rank),
            rows(&raw, columns, rank),
            rows(&orthogonal, rank, rank),
        );
        Ok(Some(Self::of_spread(spread, columns, rank)))
    }

    /// Leaves out of `normal`, which is `B' B`, what makes the probes' variances larger by no more than the tolerance, on
    /// average.
    ///
    /// Cost: columns x rank^2 multiplications, and a few times what [`Probes::excess`] takes.
    pub(super) fn of_normal(
        normal: &[f64],
        subnetwork: &ColumnSet,
        probes: &Probes,
        tolerance: f64,
    ) -> Result<Self, PosteriorError> {
        let columns = subnetwork.columns();
        let mut growing = GrowingFactor::new(normal, columns)?;
        let mut rank = FIRST_RANK;
        let mut before: Option<(usize, f64)> = None;
        loop {
            let more = growing.extend(rank);
            let found = growing.rank();
            let mut spread = vec![0.0; columns * found];
            if found > 0 {
                let factor = rows(growing.factor(), found, columns);
                rows_mut(&mut spread, columns, found).copy_from(factor.transpose());
            }
            let projection = Self::of_spread(spread, columns, found);
            if !more {
                return Ok(projection);
            }
            let excess = probes.excess(normal, &projection)?;
            if excess <= tolerance {
                return Ok(projection);
            }
            // The excess falls about exponentially.
            let rate = before.map(|(rank, was)| (was / excess).ln() / (found - rank) as f64);
            let further = match rate.filter(|&rate| rate > 0.0) {
                Some(rate) => ((excess / tolerance).ln() / rate).ceil() as usize,
                None => found,
            };
            rank = found + further.clamp(found.div_ceil(8), found.max(1));
            before = Some((found, excess));
        }
    }

    pub(super) fn of_spread(spread: Vec<f64>, columns: usize, rank: usize) -> Self {
        let mut core = vec![0.0; rank * rank];
        if rank > 0 {
            let view = rows(&spread, columns, rank);
            multiply_add_lower(rows_mut(&mut core, rank, rank).transpose_mut(), view.transpose(), view);
        }
        Self { spread, core, rank }
    }
}
