//! Dense linear algebra on slices: the only module that calls faer's routines. One thread, one order of summation.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::{matmul, triangular};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::{Accum, MatMut, MatRef, Par};

use crate::error::PosteriorError;

/// A matrix in a slice, row after row.
pub(crate) fn rows(values: &[f64], rows: usize, columns: usize) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(&values[..rows * columns], rows, columns)
}

/// A matrix to write to, row after row.
pub(crate) fn rows_mut(values: &mut [f64], rows: usize, columns: usize) -> MatMut<'_, f64> {
    MatMut::from_row_major_slice_mut(&mut values[..rows * columns], rows, columns)
}

/// A matrix, not empty, whose rows start `stride` values apart.
pub(crate) fn strided(values: &[f64], rows: usize, columns: usize, stride: usize) -> MatRef<'_, f64> {
    let length = (rows - 1) * stride + columns;
    MatRef::from_row_major_slice_with_stride(&values[..length], rows, columns, stride)
}

/// A matrix to write to, not empty, whose rows start `stride` values apart.
pub(crate) fn strided_mut(values: &mut [f64], rows: usize, columns: usize, stride: usize) -> MatMut<'_, f64> {
    let length = (rows - 1) * stride + columns;
    // Not `from_row_major_slice_with_stride_mut`: faer 0.24.4 swaps its strides, and writes out of bounds.
    MatMut::from_column_major_slice_with_stride_mut(&mut values[..length], columns, rows, stride)
        .transpose_mut()
}

/// `c = a b`.
pub(crate) fn multiply(c: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    matmul(c, Accum::Replace, a, b, 1.0, Par::Seq);
}

/// `c += factor * a b`.
pub(crate) fn multiply_add(c: MatMut<'_, f64>, factor: f64, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    matmul(c, Accum::Add, a, b, factor, Par::Seq);
}

/// The lower triangle of `c += a b`.
pub(crate) fn multiply_add_lower(c: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    lower(c, a, b, 1.0);
}

/// The lower triangle of `c -= a b`.
pub(crate) fn multiply_subtract_lower(c: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    lower(c, a, b, -1.0);
}

fn lower(c: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>, factor: f64) {
    use triangular::BlockStructure::{Rectangular, TriangularLower};
    triangular::matmul(c, TriangularLower, Accum::Add, a, Rectangular, b, Rectangular, factor, Par::Seq);
}

/// The product of a symmetric matrix, of which the lower triangle is given, column after column, with another of `width`
/// columns, row after row.
pub(crate) fn symmetric_times(matrix: &[f64], other: &[f64], size: usize, width: usize) -> Vec<f64> {
    use triangular::BlockStructure::{Rectangular, StrictTriangularUpper, TriangularLower};
    let mut product = vec![0.0; size * width];
    let other = rows(other, size, width);
    let lower = MatRef::from_column_major_slice(&matrix[..size * size], size, size);
    for (matrix, structure) in [(lower, TriangularLower), (lower.transpose(), StrictTriangularUpper)] {
        let into = rows_mut(&mut product, size, width);
        triangular::matmul(
            into,
            Rectangular,
            Accum::Add,
            matrix,
            structure,
            other,
            Rectangular,
            1.0,
            Par::Seq,
        );
    }
    product
}

/// Cholesky factor of a symmetric matrix, of which the lower triangle is given, column after column (the upper
/// one, row after row). Overwrites it with the factor `L`; returns the matrix's log determinant.
pub(crate) fn cholesky(matrix: &mut [f64], size: usize) -> Result<f64, PosteriorError> {
    if size == 0 {
        return Ok(0.0);
    }
    let mut memory = MemBuffer::try_new(cholesky_in_place_scratch::<f64>(size, Par::Seq, Default::default()))
        .map_err(|_| PosteriorError::NotPositive)?;
    let view = MatMut::from_column_major_slice_mut(&mut matrix[..size * size], size, size);
    cholesky_in_place(view, Default::default(), Par::Seq, MemStack::new(&mut memory), Default::default())
        .map_err(|_| PosteriorError::NotPositive)?;
    let logarithm: f64 = (0..size).map(|index| matrix[index * size + index].ln()).sum();
    if logarithm.is_finite() { Ok(2.0 * logarithm) } else { Err(PosteriorError::NotPositive) }
}

/// The inverse of a factor from [`cholesky`], laid out alike: column after column, `L^-1`; or row after row, its
/// transpose `L^-T`, zeros below the diagonal.
pub(crate) fn inverse_factor(factor: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; size * size];
    if size > 0 {
        let from = MatRef::from_column_major_slice(&factor[..size * size], size, size);
        let to = MatMut::from_column_major_slice_mut(&mut inverse, size, size);
        invert_lower_triangular(to, from, Par::Seq);
    }
    inverse
}

/// Eigenvalues, ascending, and eigenvectors, one after another, of a symmetric matrix of which the lower triangle is given,
/// row after row. Overwrites the upper one. None where they cannot be computed.
pub(crate) fn symmetric_eigen(matrix: &mut [f64], size: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    for row in 0..size {
        for column in 0..row {
            matrix[column * size + row] = matrix[row * size + column];
        }
    }
    eigen(matrix, size).ok()
}

/// Copies the lower triangle (column after column) to the upper one.
pub(crate) fn mirror(matrix: &mut [f64], size: usize) {
    // In tiles: a whole column against a whole row would miss the cache at every value.
    const TILE: usize = 32;
    for top in (0..size).step_by(TILE) {
        for left in (0..=top).step_by(TILE) {
            for column in left..(left + TILE).min(size) {
                for row in top.max(column + 1)..(top + TILE).min(size) {
                    matrix[row * size + column] = matrix[column * size + row];
                }
            }
        }
    }
}

/// Eigenvalues, ascending, and eigenvectors, one after the other, of a symmetric matrix of which the lower triangle is
/// given, column after column.
pub(crate) fn eigen(matrix: &[f64], size: usize) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
    if !matrix.iter().sum::<f64>().is_finite() {
        return Err(PosteriorError::NotPositive);
    }
    let (mut values, mut vectors) = (vec![0.0; size], vec![0.0; size * size]);
    if size > 0 {
        let scratch =
            self_adjoint_evd_scratch::<f64>(size, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        let mut memory = MemBuffer::try_new(scratch).map_err(|_| PosteriorError::NotPositive)?;
        self_adjoint_evd(
            MatRef::from_column_major_slice(&matrix[..size * size], size, size),
            DiagMut::from_slice_mut(&mut values),
            Some(MatMut::from_column_major_slice_mut(&mut vectors, size, size)),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        )
        .map_err(|_| PosteriorError::NotPositive)?;
    }
    Ok((values, vectors))
}
