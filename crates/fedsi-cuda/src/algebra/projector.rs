//! Covariances of outputs: products of Jacobians with one matrix that stays on the device.

use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::{Gemm as _, GemmConfig, StridedBatchedConfig};
use cudarc::driver::{CudaSlice, PushKernelArg as _};
use fedsi_bayes::{JacobianFactors, PosteriorError, Projector};

use super::jacobian::DeviceJacobian;
use super::lane::{Lane, check_length, dimension, failed, grid};
use super::reported;
use crate::error::CudaError;

/// W, `[columns, rank]`, on the device.
pub(super) struct DeviceProjector {
    // Before the lane: memory goes back before somebody else gets the stream.
    factor: CudaSlice<f64>,
    columns: usize,
    rank: usize,
    lane: Lane,
}

impl DeviceProjector {
    pub(super) fn new(lane: Lane, factor: &[f64], rank: usize) -> Result<Self, CudaError> {
        let columns = factor.len().checked_div(rank).unwrap_or(0);
        Ok(Self { factor: lane.upload(factor)?, columns, rank, lane })
    }

    /// For some whole samples at a time, `Y = J W` with what follows of it: `each` has the first sample, Y `[samples, rows of a
    /// sample, rank]`, and their number.
    fn each_block(
        &self,
        jacobian: &JacobianFactors<'_>,
        mut each: impl FnMut(usize, &CudaSlice<f64>, usize) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let width = jacobian.rows().checked_div(jacobian.samples()).unwrap_or(0);
        if width == 0 || self.columns == 0 || self.rank == 0 {
            return Ok(());
        }
        let device = DeviceJacobian::new(&self.lane, jacobian)?;
        let at_once = DeviceJacobian::rows_at_once(self.columns.max(self.rank), width).min(device.rows());
        let mut expanded = self.lane.zeros::<f64>(at_once * self.columns)?;
        let mut product = self.lane.zeros::<f64>(at_once * self.rank)?;
        for first in (0..device.rows()).step_by(at_once) {
            let rows = at_once.min(device.rows() - first);
            device.expand(&self.lane, first, rows, &mut expanded)?;
            let shape = GemmConfig {
                transa: CUBLAS_OP_N,
                transb: CUBLAS_OP_N,
                m: dimension(self.rank)?,
                n: dimension(rows)?,
                k: dimension(self.columns)?,
                alpha: 1.0,
                lda: dimension(self.rank)?,
                ldb: dimension(self.columns)?,
                beta: 0.0,
                ldc: dimension(self.rank)?,
            };
            // SAFETY: read column after column, W is rank x columns, the rows columns x rows and the product rank x rows: all
            // three have at least these sizes.
            unsafe { self.lane.blas()?.gemm(shape, &self.factor, &expanded, &mut product) }
                .map_err(|error| failed("cublasDgemm", format!("{:?}", error.0)))?;
            each(first / width, &product, rows / width)?;
        }
        Ok(())
    }

    /// `left_n right_n'` for each of `samples` blocks of `width` rows.
    fn outer(
        &self,
        left: &CudaSlice<f64>,
        right: &CudaSlice<f64>,
        samples: usize,
        width: usize,
    ) -> Result<Vec<f64>, CudaError> {
        let rows = samples * width;
        check_length("cublasDgemmStridedBatched", left.len().min(right.len()) >= rows * self.rank)?;
        let mut blocks = self.lane.zeros::<f64>(rows * width)?;
        let stride = (width * self.rank) as i64;
        let shape = StridedBatchedConfig {
            gemm: GemmConfig {
                transa: CUBLAS_OP_T,
                transb: CUBLAS_OP_N,
                m: dimension(width)?,
                n: dimension(width)?,
                k: dimension(self.rank)?,
                alpha: 1.0,
                lda: dimension(self.rank)?,
                ldb: dimension(self.rank)?,
                beta: 0.0,
                ldc: dimension(width)?,
            },
            batch_size: dimension(samples)?,
            stride_a: stride,
            stride_b: stride,
            stride_c: (width * width) as i64,
        };
        // SAFETY: each sample has width x rank values in both matrices, as was checked, and width x width in the result.
        unsafe { self.lane.blas()?.gemm_strided_batched(shape, left, right, &mut blocks) }
            .map_err(|error| failed("cublasDgemmStridedBatched", format!("{:?}", error.0)))?;
        self.lane.download(&blocks, rows * width)
    }

    fn add(&self, jacobian: &JacobianFactors<'_>, sign: f64, blocks: &mut [f64]) -> Result<(), CudaError> {
        let width = jacobian.rows().checked_div(jacobian.samples()).unwrap_or(0);
        self.each_block(jacobian, |first, product, samples| {
            let found = self.outer(product, product, samples, width)?;
            for (block, value) in blocks[first * width * width..].iter_mut().zip(found) {
                *block += sign * value;
            }
            Ok(())
        })
    }

    fn weighted(
        &self,
        jacobian: &JacobianFactors<'_>,
        weights: &[f64],
        count: usize,
    ) -> Result<Vec<f64>, CudaError> {
        let all_samples = jacobian.samples();
        let width = jacobian.rows().checked_div(all_samples).unwrap_or(0);
        let mut all = vec![0.0; count * all_samples * width * width];
        if count == 0 {
            return Ok(all);
        }
        check_length("scale_columns", weights.len() >= self.rank * count)?;
        let device_weights = self.lane.upload(weights)?;
        self.each_block(jacobian, |first, product, samples| {
            let mut scaled = self.lane.zeros::<f64>(samples * width * self.rank)?;
            for which in 0..count {
                self.scale(&mut scaled, product, &device_weights, samples * width, count, which)?;
                let found = self.outer(&scaled, product, samples, width)?;
                let place = (which * all_samples + first) * width * width;
                all[place..place + found.len()].copy_from_slice(&found);
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn scale(
        &self,
        into: &mut CudaSlice<f64>,
        matrix: &CudaSlice<f64>,
        weights: &CudaSlice<f64>,
        rows: usize,
        count: usize,
        which: usize,
    ) -> Result<(), CudaError> {
        check_length("scale_columns", into.len().min(matrix.len()) >= rows * self.rank && which < count)?;
        let (rows_now, columns, count, which) = (rows as u32, self.rank as u32, count as u32, which as u32);
        let stream = self.lane.stream()?;
        let mut launch = stream.launch_builder(&self.lane.kernels().scale_columns);
        launch.arg(into).arg(matrix).arg(weights).arg(&rows_now).arg(&columns).arg(&count).arg(&which);
        // SAFETY: both matrices have rows x rank values and the weights rank x count, as was checked here and by the caller.
        unsafe { launch.launch(grid(self.rank, rows)) }.map_err(CudaError::call("scale_columns"))?;
        Ok(())
    }
}

impl Projector for DeviceProjector {
    fn add_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        sign: f64,
        blocks: &mut [f64],
    ) -> Result<(), PosteriorError> {
        self.add(jacobian, sign, blocks).map_err(reported)
    }

    fn weighted_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        weights: &[f64],
        count: usize,
    ) -> Result<Vec<f64>, PosteriorError> {
        self.weighted(jacobian, weights, count).map_err(reported)
    }
}
