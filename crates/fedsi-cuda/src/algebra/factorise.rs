//! Factorisations by cuSOLVER.

use std::ffi::c_void;

use cudarc::cusolver::sys as solver;
use cudarc::driver::{CudaSlice, DevicePtrMut as _, PushKernelArg as _};

use fedsi_bayes::PosteriorError;

use super::lane::{Lane, check_length, dimension, failed, grid};
use crate::error::CudaError;

/// A log determinant, and the inverse of a Cholesky factor, column after column.
pub(super) type InverseFactor = (f64, Vec<f64>);

/// Eigenvalues, ascending, and eigenvectors, one after the other.
pub(super) type Eigen = (Vec<f64>, Vec<f64>);

/// A factorisation, or what the matrix lacks.
pub(super) enum Outcome<T> {
    Done(T),
    /// Not positive definite, or its eigenvalues do not converge.
    Refused,
}

impl<T> Outcome<T> {
    /// As a posterior's caller is told.
    pub(super) fn or_not_positive(self) -> Result<T, PosteriorError> {
        match self {
            Self::Done(found) => Ok(found),
            Self::Refused => Err(PosteriorError::NotPositive),
        }
    }
}

/// The log determinant of a symmetric positive definite matrix (the lower triangle, column after column), and the inverse of
/// its Cholesky factor, zeros above the diagonal.
pub(super) fn inverse_factor(
    lane: &Lane,
    matrix: &[f64],
    size: usize,
) -> Result<Outcome<InverseFactor>, CudaError> {
    check_length("cusolverDnDpotrf", matrix.len() >= size * size)?;
    inverse_factor_on_device(lane, lane.upload(&matrix[..size * size])?, size)
}

/// The same of a matrix that is on the device.
pub(super) fn inverse_factor_on_device(
    lane: &Lane,
    mut device: CudaSlice<f64>,
    size: usize,
) -> Result<Outcome<InverseFactor>, CudaError> {
    check_length("cusolverDnDpotrf", device.len() >= size * size)?;
    if !cholesky(lane, &mut device, size)? {
        return Ok(Outcome::Refused);
    }
    let logarithm: f64 = lane.diagonal(&device, size)?.iter().map(|value| value.ln()).sum();
    if !logarithm.is_finite() || !invert_lower(lane, &mut device, size)? {
        return Ok(Outcome::Refused);
    }
    clear_upper(lane, &mut device, size)?;
    Ok(Outcome::Done((2.0 * logarithm, lane.download(&device, size * size)?)))
}

/// Whether the matrix was positive definite.
fn cholesky(lane: &Lane, matrix: &mut CudaSlice<f64>, size: usize) -> Result<bool, CudaError> {
    let lower = solver::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
    let (n, handle) = (dimension(size)?, lane.solver()?.cu());
    let stream = lane.stream()?;
    let mut information = lane.zeros::<i32>(1)?;
    let mut length = 0;
    {
        let (place, _write) = matrix.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n; the call writes one number, on the host.
        let status = unsafe {
            solver::cusolverDnDpotrf_bufferSize(handle, lower, n, place as *mut f64, n, &raw mut length)
        };
        status.result().map_err(|error| failed("cusolverDnDpotrf_bufferSize", format!("{:?}", error.0)))?;
    }
    let mut workspace = lane.zeros::<f64>(length.max(1) as usize)?;
    {
        let (place, _write) = matrix.device_ptr_mut(stream);
        let (workspace, _work) = workspace.device_ptr_mut(stream);
        let (information, _information) = information.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n, the workspace as long as was asked for, the result of the call one number.
        let status = unsafe {
            solver::cusolverDnDpotrf(
                handle,
                lower,
                n,
                place as *mut f64,
                n,
                workspace as *mut f64,
                length,
                information as *mut i32,
            )
        };
        status.result().map_err(|error| failed("cusolverDnDpotrf", format!("{:?}", error.0)))?;
    }
    Ok(lane.download(&information, 1)? == [0])
}

/// Inverts a lower triangular matrix in its place; whether it could be.
fn invert_lower(lane: &Lane, matrix: &mut CudaSlice<f64>, size: usize) -> Result<bool, CudaError> {
    let lower = solver::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
    let diagonal = solver::cublasDiagType_t::CUBLAS_DIAG_NON_UNIT;
    let kind = solver::cudaDataType::CUDA_R_64F;
    let (n, handle) = (i64::from(dimension(size)?), lane.solver()?.cu());
    let stream = lane.stream()?;
    let mut information = lane.zeros::<i32>(1)?;
    let (mut on_device, mut on_host) = (0_usize, 0_usize);
    {
        let (place, _write) = matrix.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n of f64; the call writes two numbers, on the host.
        let status = unsafe {
            solver::cusolverDnXtrtri_bufferSize(
                handle,
                lower,
                diagonal,
                n,
                kind,
                place as *mut c_void,
                n,
                &raw mut on_device,
                &raw mut on_host,
            )
        };
        status.result().map_err(|error| failed("cusolverDnXtrtri_bufferSize", format!("{:?}", error.0)))?;
    }
    let mut workspace = lane.zeros::<u8>(on_device)?;
    let mut host_workspace = vec![0_u8; on_host.max(1)];
    {
        let (place, _write) = matrix.device_ptr_mut(stream);
        let (workspace, _work) = workspace.device_ptr_mut(stream);
        let (information, _information) = information.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n of f64, both workspaces are as long as was asked for, the result of the call is one
        // number. The host's workspace lives until the stream is waited for below.
        let status = unsafe {
            solver::cusolverDnXtrtri(
                handle,
                lower,
                diagonal,
                n,
                kind,
                place as *mut c_void,
                n,
                workspace as *mut c_void,
                on_device,
                host_workspace.as_mut_ptr().cast::<c_void>(),
                on_host,
                information as *mut i32,
            )
        };
        status.result().map_err(|error| failed("cusolverDnXtrtri", format!("{:?}", error.0)))?;
    }
    Ok(lane.download(&information, 1)? == [0])
}

fn clear_upper(lane: &Lane, matrix: &mut CudaSlice<f64>, size: usize) -> Result<(), CudaError> {
    let rows = size as u32;
    let stream = lane.stream()?;
    let mut launch = stream.launch_builder(&lane.kernels().clear_upper);
    launch.arg(matrix).arg(&rows);
    // SAFETY: the matrix has size x size values, and the kernel writes above its diagonal only.
    unsafe { launch.launch(grid(size, size)) }.map_err(CudaError::call("clear_upper"))?;
    Ok(())
}

/// Eigenvalues, ascending, and eigenvectors, one after the other, of a symmetric matrix (the lower triangle, column after
/// column).
pub(super) fn eigen(lane: &Lane, matrix: &[f64], size: usize) -> Result<Outcome<Eigen>, CudaError> {
    check_length("cusolverDnDsyevd", matrix.len() >= size * size)?;
    eigen_on_device(lane, lane.upload(&matrix[..size * size])?, size)
}

/// The same of a matrix that is on the device.
pub(super) fn eigen_on_device(
    lane: &Lane,
    mut device: CudaSlice<f64>,
    size: usize,
) -> Result<Outcome<Eigen>, CudaError> {
    check_length("cusolverDnDsyevd", device.len() >= size * size)?;
    let mut values = lane.zeros::<f64>(size)?;
    let mut information = lane.zeros::<i32>(1)?;
    let vectors = solver::cusolverEigMode_t::CUSOLVER_EIG_MODE_VECTOR;
    let lower = solver::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
    let (n, handle) = (dimension(size)?, lane.solver()?.cu());
    let stream = lane.stream()?;
    let mut length = 0;
    {
        let (place, _matrix) = device.device_ptr_mut(stream);
        let (own_values, _values) = values.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n, the values are n; the call writes one number, on the host.
        let status = unsafe {
            solver::cusolverDnDsyevd_bufferSize(
                handle,
                vectors,
                lower,
                n,
                place as *const f64,
                n,
                own_values as *const f64,
                &raw mut length,
            )
        };
        status.result().map_err(|error| failed("cusolverDnDsyevd_bufferSize", format!("{:?}", error.0)))?;
    }
    let mut workspace = lane.zeros::<f64>(length.max(1) as usize)?;
    {
        let (place, _matrix) = device.device_ptr_mut(stream);
        let (own_values, _values) = values.device_ptr_mut(stream);
        let (workspace, _work) = workspace.device_ptr_mut(stream);
        let (information, _information) = information.device_ptr_mut(stream);
        // SAFETY: the matrix is n x n, the values are n, the workspace is as long as was asked for, the result of the call
        // one number.
        let status = unsafe {
            solver::cusolverDnDsyevd(
                handle,
                vectors,
                lower,
                n,
                place as *mut f64,
                n,
                own_values as *mut f64,
                workspace as *mut f64,
                length,
                information as *mut i32,
            )
        };
        status.result().map_err(|error| failed("cusolverDnDsyevd", format!("{:?}", error.0)))?;
    }
    if lane.download(&information, 1)? != [0] {
        return Ok(Outcome::Refused);
    }
    Ok(Outcome::Done((lane.download(&values, size)?, lane.download(&device, size * size)?)))
}
