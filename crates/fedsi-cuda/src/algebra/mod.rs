//! Linear algebra of posteriors on the device, in f64: cuBLAS, cuSOLVER and a few kernels.
//!
//! Jacobians come in factors and are multiplied out some rows at a time on the device, for products at the speed of cuBLAS.
//! Sums of `B' B` stay there until they are complete; a matrix that many Jacobians are multiplied with is copied once. The same inputs give the same bits on the same device: no sum depends on the order in which threads end.

mod factorise;
mod jacobian;
mod kernels;
mod lane;
mod normal;
mod projector;

use std::sync::Arc;

use cudarc::driver::CudaContext;
use fedsi_bayes::{LinearAlgebra, NormalMatrix, PosteriorError, Projector, SingleThread};

pub use self::lane::Compile;
use self::lane::{Lane, Shared};
use crate::error::CudaError;
use crate::libraries::CudaLibrary;

/// Multiplications on one core below which copies and launches cost more than they save: some 10 ms of work.
const LEAST_MULTIPLICATIONS: f64 = 2e8;

/// Size of a factorisation below which a core is as fast.
const LEAST_SIZE: usize = 512;

/// Linear algebra on a GPU, for any number of threads at once: each works on a stream of its own.
#[derive(Debug)]
pub struct CudaAlgebra {
    shared: Arc<Shared>,
    least_multiplications: f64,
    least_size: usize,
}

impl CudaAlgebra {
    /// On the GPU of a context; `compile` turns CUDA C++ into its kernels.
    ///
    /// # Errors
    /// cuBLAS or cuSOLVER are not on this machine; a kernel that does not compile.
    pub fn new(context: Arc<CudaContext>, compile: Compile<'_>) -> Result<Self, CudaError> {
        CudaLibrary::Blas.find()?;
        CudaLibrary::Solver.find()?;
        let shared = Arc::new(Shared::new(context, compile)?);
        Ok(Self { shared, least_multiplications: LEAST_MULTIPLICATIONS, least_size: LEAST_SIZE })
    }

    /// The same, with the smallest problems on the device as well: for tests.
    #[must_use]
    pub const fn with_everything_on_the_device(mut self) -> Self {
        self.least_multiplications = 0.0;
        self.least_size = 1;
        self
    }

    fn lane(&self) -> Result<Lane, PosteriorError> {
        self.shared.lane().map_err(reported)
    }
}

impl LinearAlgebra for CudaAlgebra {
    fn normal_matrix(
        &self,
        columns: usize,
        samples: usize,
        rows: usize,
    ) -> Result<Box<dyn NormalMatrix>, PosteriorError> {
        if !self.is_on_device(columns, samples) {
            return SingleThread.normal_matrix(columns, samples, rows);
        }
        Ok(Box::new(normal::DeviceNormal::new(self.lane()?, columns).map_err(reported)?))
    }

    fn is_on_device(&self, columns: usize, samples: usize) -> bool {
        columns > 0 && 0.25 * samples as f64 * (columns as f64).powi(2) >= self.least_multiplications
    }

    fn inverse_factor(&self, matrix: Vec<f64>, size: usize) -> Result<(f64, Vec<f64>), PosteriorError> {
        if size < self.least_size {
            return SingleThread.inverse_factor(matrix, size);
        }
        factorise::inverse_factor(&self.lane()?, &matrix, size).map_err(reported)?.or_not_positive()
    }

    fn eigen(&self, matrix: &[f64], size: usize) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        if size < self.least_size {
            return SingleThread.eigen(matrix, size);
        }
        if !matrix.iter().sum::<f64>().is_finite() {
            return Err(PosteriorError::NotPositive);
        }
        factorise::eigen(&self.lane()?, matrix, size).map_err(reported)?.or_not_positive()
    }

    fn projector<'a>(
        &'a self,
        factor: &'a [f64],
        rank: usize,
        upper: bool,
        samples: usize,
    ) -> Result<Box<dyn Projector + 'a>, PosteriorError> {
        if (factor.len() * samples) as f64 <= self.least_multiplications || rank == 0 {
            return SingleThread.projector(factor, rank, upper, samples);
        }
        Ok(Box::new(projector::DeviceProjector::new(self.lane()?, factor, rank).map_err(reported)?))
    }
}

/// What a posterior's caller is told.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn reported(error: CudaError) -> PosteriorError {
    PosteriorError::Device { reason: error.to_string() }
}
