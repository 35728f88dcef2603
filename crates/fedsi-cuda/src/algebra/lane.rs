//! A stream of the GPU with its handles of cuBLAS and cuSOLVER: what one thread works on at a time.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublas::{CudaBlas, sys as blas};
use cudarc::cusolver::DnHandle;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr as _, DevicePtrMut as _, DeviceRepr,
    DriverError, LaunchConfig, ValidAsZeroBits, sys as driver,
};

use super::kernels::{CLEAR_UPPER, EXPAND_ROWS, SCALE_COLUMNS, SHIFTED, THREADS};
use crate::error::CudaError;

/// Compiles CUDA C++ (the source, the function's name).
pub type Compile<'a> = &'a dyn Fn(&str, &str) -> Result<CudaFunction, CudaError>;

/// The kernels, compiled.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) expand_rows: CudaFunction,
    pub(super) clear_upper: CudaFunction,
    pub(super) scale_columns: CudaFunction,
    pub(super) shifted: CudaFunction,
}

impl Kernels {
    fn new(compile: Compile<'_>) -> Result<Self, CudaError> {
        let of = |(entry, source): (&str, &str)| compile(source, entry);
        Ok(Self {
            expand_rows: of(EXPAND_ROWS)?,
            clear_upper: of(CLEAR_UPPER)?,
            scale_columns: of(SCALE_COLUMNS)?,
            shifted: of(SHIFTED)?,
        })
    }
}

/// What all threads share: kernels, and the lanes that nobody uses at the moment.
#[derive(Debug)]
pub(super) struct Shared {
    context: Arc<CudaContext>,
    pub(super) kernels: Kernels,
    free: Mutex<Vec<Handles>>,
}

/// A stream and its handles.
#[derive(Debug)]
struct Handles {
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    solver: DnHandle,
}

impl Shared {
    pub(super) fn new(context: Arc<CudaContext>, compile: Compile<'_>) -> Result<Self, CudaError> {
        Ok(Self { context, kernels: Kernels::new(compile)?, free: Mutex::new(Vec::new()) })
    }

    /// A lane that nobody else uses: a free one, else a new one.
    pub(super) fn lane(self: &Arc<Self>) -> Result<Lane, CudaError> {
        self.context.bind_to_thread().map_err(CudaError::call("cuCtxSetCurrent"))?;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handles = match free {
            Some(handles) => handles,
            None => {
                let stream = self.context.new_stream().map_err(CudaError::call("cuStreamCreate"))?;
                let blas = CudaBlas::new(Arc::clone(&stream))
                    .map_err(|error| failed("cublasCreate", format!("{:?}", error.0)))?;
                let solver = DnHandle::new(Arc::clone(&stream))
                    .map_err(|error| failed("cusolverDnCreate", format!("{:?}", error.0)))?;
                Handles { stream, blas, solver }
            }
        };
        Ok(Lane { shared: Arc::clone(self), handles: Some(handles) })
    }
}

/// A stream and its handles, given back to [`Shared`] in the end.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    /// None only while it is dropped.
    handles: Option<Handles>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(handles) = self.handles.take() {
            self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).push(handles);
        }
    }
}

impl Lane {
    fn handles(&self) -> Result<&Handles, CudaError> {
        // A lane may have been made on another thread.
        self.shared.context.bind_to_thread().map_err(CudaError::call("cuCtxSetCurrent"))?;
        self.handles.as_ref().ok_or_else(|| failed("a lane of the GPU", "it was given back".to_owned()))
    }

    pub(super) fn stream(&self) -> Result<&Arc<CudaStream>, CudaError> {
        Ok(&self.handles()?.stream)
    }

    pub(super) fn blas(&self) -> Result<&CudaBlas, CudaError> {
        Ok(&self.handles()?.blas)
    }

    pub(super) fn solver(&self) -> Result<&DnHandle, CudaError> {
        Ok(&self.handles()?.solver)
    }

    pub(super) fn kernels(&self) -> &Kernels {
        &self.shared.kernels
    }

    /// Memory full of zeros.
    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        values: usize,
    ) -> Result<CudaSlice<T>, CudaError> {
        // The driver refuses to take no memory at all.
        self.stream()?.alloc_zeros(values.max(1)).map_err(|error| self.memory(error, values * size_of::<T>()))
    }

    /// A copy on the device.
    pub(super) fn upload<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        values: &[T],
    ) -> Result<CudaSlice<T>, CudaError> {
        if values.is_empty() {
            return self.zeros(1);
        }
        self.stream()?.clone_htod(values).map_err(|error| self.memory(error, size_of_val(values)))
    }

    /// The first `count` values, on the host, once everything before is done.
    pub(super) fn download<T: DeviceRepr>(
        &self,
        values: &CudaSlice<T>,
        count: usize,
    ) -> Result<Vec<T>, CudaError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let stream = self.stream()?;
        let found = stream.clone_dtoh(&values.slice(..count)).map_err(CudaError::call("cuMemcpyDtoH"))?;
        stream.synchronize().map_err(CudaError::call("cuStreamSynchronize"))?;
        Ok(found)
    }

    /// The lower triangle of `c += factor * a a'`, both column after column: a has `size` rows and `depth` columns.
    pub(super) fn add_outer(
        &self,
        c: &mut CudaSlice<f64>,
        factor: f64,
        a: &CudaSlice<f64>,
        size: usize,
        depth: usize,
    ) -> Result<(), CudaError> {
        if size == 0 || depth == 0 {
            return Ok(());
        }
        check_length("cublasDsyrk", c.len() >= size * size && a.len() >= size * depth)?;
        let (stream, blas) = (self.stream()?, self.blas()?);
        let (n, k) = (dimension(size)?, dimension(depth)?);
        let one = 1.0;
        let (a, _read) = a.device_ptr(stream);
        let (c, _write) = c.device_ptr_mut(stream);
        // SAFETY: both matrices lie on this stream's device and are as large as was checked; the factors are read during
        // the call (pointer mode host).
        let status = unsafe {
            blas::cublasDsyrk_v2(
                *blas.handle(),
                blas::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
                blas::cublasOperation_t::CUBLAS_OP_N,
                n,
                k,
                &raw const factor,
                a as *const f64,
                n,
                &raw const one,
                c as *mut f64,
                n,
            )
        };
        status.result().map_err(|error| failed("cublasDsyrk", format!("{:?}", error.0)))
    }

    /// The diagonal of a square matrix.
    pub(super) fn diagonal(&self, matrix: &CudaSlice<f64>, size: usize) -> Result<Vec<f64>, CudaError> {
        if size == 0 {
            return Ok(Vec::new());
        }
        check_length("cublasDcopy", matrix.len() >= size * size)?;
        let mut found = self.zeros::<f64>(size)?;
        {
            let (stream, blas) = (self.stream()?, self.blas()?);
            let (from, _read) = matrix.device_ptr(stream);
            let (to, _write) = found.device_ptr_mut(stream);
            // SAFETY: reads `size` values `size + 1` apart of a matrix of size^2, and writes `size` values: both are there.
            let status = unsafe {
                blas::cublasDcopy_v2(
                    *blas.handle(),
                    dimension(size)?,
                    from as *const f64,
                    dimension(size + 1)?,
                    to as *mut f64,
                    1,
                )
            };
            status.result().map_err(|error| failed("cublasDcopy", format!("{:?}", error.0)))?;
        }
        self.download(&found, size)
    }

    /// What a refused request for memory means.
    fn memory(&self, error: DriverError, bytes: usize) -> CudaError {
        if error.0 != driver::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return CudaError::call("cuMemAlloc")(error);
        }
        let free = self.shared.context.mem_get_info().map_or(0, |(free, _)| free);
        CudaError::OutOfMemory { needed: (bytes >> 20) as u64, free: (free >> 20) as u64 }
    }
}

/// A failed call of a library.
pub(super) fn failed(call: &'static str, reason: String) -> CudaError {
    CudaError::Call { call, reason }
}

/// A dimension as libraries take it.
pub(super) fn dimension(value: usize) -> Result<i32, CudaError> {
    i32::try_from(value)
        .map_err(|_| CudaError::Unsupported(format!("multiply matrices of {value} rows or columns")))
}

/// Whether the memory is as large as a call needs.
pub(super) fn check_length(call: &'static str, enough: bool) -> Result<(), CudaError> {
    if enough { Ok(()) } else { Err(failed(call, "a matrix is smaller than its dimensions".to_owned())) }
}

/// Blocks for `width` columns (x) and up to `height` rows (y).
pub(super) fn grid(width: usize, height: usize) -> LaunchConfig {
    /// What CUDA allows in y.
    const TALLEST: usize = 65_535;
    LaunchConfig {
        grid_dim: (width.div_ceil(THREADS as usize).max(1) as u32, height.clamp(1, TALLEST) as u32, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}
