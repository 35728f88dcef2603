//! The heavy linear algebra of posteriors, as a value that a network supplies.
//!
//! [`SingleThread`] is what every network has unless it says otherwise
//! ([`LinearisedNetwork::algebra`](crate::LinearisedNetwork::algebra)): faer on the caller's thread. Another implementation, of
//! a GPU for example, gets Jacobians in factors ([`JacobianFactors`]) and keeps the matrices made of them where it likes. It
//! may hand small problems on to [`SingleThread`].

mod factors;
mod single_thread;

pub use factors::JacobianFactors;
pub use single_thread::SingleThread;

use std::fmt;

use crate::error::PosteriorError;

/// Linear algebra in f64: equal inputs give equal bits, whatever runs beside it.
///
/// It is called from several threads at once. Matrices are slices, row after row unless it says otherwise.
pub trait LinearAlgebra: fmt::Debug + Send + Sync {
    /// An empty sum of `B' B`, for Jacobians of so many columns whose rows will number about `rows` over `samples` samples.
    ///
    /// # Errors
    /// Too little memory.
    fn normal_matrix(
        &self,
        columns: usize,
        samples: usize,
        rows: usize,
    ) -> Result<Box<dyn NormalMatrix>, PosteriorError>;

    /// Whether [`Self::normal_matrix`] of so many columns and samples is summed and factorised on a device: far faster there than
    /// what a thread could do to make it smaller.
    fn is_on_device(&self, columns: usize, samples: usize) -> bool {
        let _ = (columns, samples);
        false
    }

    /// Factorises a symmetric positive definite matrix, of which the lower triangle is given, column after column, as `L L'`:
    /// its log determinant, and `L^-1`, column after column, zeros above the diagonal.
    ///
    /// # Errors
    /// A matrix that is not positive definite; too little memory.
    fn inverse_factor(&self, matrix: Vec<f64>, size: usize) -> Result<(f64, Vec<f64>), PosteriorError>;

    /// Eigenvalues, ascending, and eigenvectors, one after the other, of a symmetric matrix of which the lower triangle is
    /// given, column after column.
    ///
    /// # Errors
    /// A matrix that is not finite; too little memory.
    fn eigen(&self, matrix: &[f64], size: usize) -> Result<(Vec<f64>, Vec<f64>), PosteriorError>;

    /// For products of many Jacobians with one matrix W, `[columns, rank]`, for outputs of so many samples. If
    /// `upper`, W is upper triangular.
    ///
    /// # Errors
    /// Too little memory.
    fn projector<'a>(
        &'a self,
        factor: &'a [f64],
        rank: usize,
        upper: bool,
        samples: usize,
    ) -> Result<Box<dyn Projector + 'a>, PosteriorError>;
}

/// A sum of `B' B`, kept where it is computed.
pub trait NormalMatrix: fmt::Debug + Send + Sync {
    /// Adds `B' B`.
    ///
    /// # Errors
    /// Too little memory.
    fn add(&mut self, jacobian: &JacobianFactors<'_>) -> Result<(), PosteriorError>;

    /// Whether it lies outside this program's memory, and is better factorised there than copied.
    fn on_device(&self) -> bool {
        false
    }

    /// The diagonal.
    ///
    /// # Errors
    /// A device that fails.
    fn diagonal(&self) -> Result<Vec<f64>, PosteriorError>;

    /// What [`LinearAlgebra::inverse_factor`] gives for `I + scale * matrix`. The matrix stays what it is.
    ///
    /// # Errors
    /// A matrix that is not positive definite; too little memory.
    fn inverse_factor(&self, scale: f64) -> Result<(f64, Vec<f64>), PosteriorError>;

    /// What [`LinearAlgebra::eigen`] gives. The matrix stays what it is.
    ///
    /// # Errors
    /// A matrix that is not finite; too little memory.
    fn eigen(&self) -> Result<(Vec<f64>, Vec<f64>), PosteriorError>;

    /// The lower triangle, column after column.
    ///
    /// # Errors
    /// A device that fails.
    fn into_lower(self: Box<Self>) -> Result<Vec<f64>, PosteriorError>;
}

/// Products of Jacobians with one matrix W.
pub trait Projector {
    /// Adds `sign * Y_n Y_n'` to the block of each sample n, with Y the rows `J W` of the sample: `blocks` is
    /// `[samples, rows of a sample, rows of a sample]`. Samples have the same number of rows.
    ///
    /// # Errors
    /// A device that fails.
    fn add_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        sign: f64,
        blocks: &mut [f64],
    ) -> Result<(), PosteriorError>;

    /// `Y_n diag(w) Y_n'` for each of `count` weights w of the columns of W, given as `[rank, count]`: `[count, samples, rows of
    /// a sample, rows of a sample]`.
    ///
    /// # Errors
    /// A device that fails.
    fn weighted_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        weights: &[f64],
        count: usize,
    ) -> Result<Vec<f64>, PosteriorError>;
}
