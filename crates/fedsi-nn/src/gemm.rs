//! Matrix products on row-major slices: the only module that calls faer.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::Scalar;

/// A matrix in a slice, row after row; [`Rows::t`] is its transpose, at no cost.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    matrix: MatRef<'a, T>,
}

impl<'a, T: Scalar> Rows<'a, T> {
    /// The first `rows * columns` values of `values`.
    pub(crate) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        Self { matrix: MatRef::from_row_major_slice(&values[..rows * columns], rows, columns) }
    }

    pub(crate) fn t(self) -> Self {
        Self { matrix: self.matrix.transpose() }
    }
}

/// `c = a b`, or `c += a b`. One thread: clients are what runs in parallel, and one order of summation is what
/// makes a run repeatable.
pub(crate) fn product<T: Scalar>(c: &mut [T], a: Rows<'_, T>, b: Rows<'_, T>, add: bool) {
    let (rows, columns) = (a.matrix.nrows(), b.matrix.ncols());
    let accum = if add { Accum::Add } else { Accum::Replace };
    let c = MatMut::from_row_major_slice_mut(&mut c[..rows * columns], rows, columns);
    matmul(c, accum, a.matrix, b.matrix, T::one(), Par::Seq);
}
