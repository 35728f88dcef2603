//! Memory of the GPU, and memory of the host that it copies to and from without the processor.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result, sys};

use crate::CudaError;

/// Bytes that addresses within a buffer are a multiple of: whole cache lines, and what bulk copies need.
pub(crate) const ALIGNMENT: usize = 256;

/// Values that may be copied to and from a GPU: any bits are valid, and there are no gaps between fields.
///
/// # Safety
/// Only for types of which that is true.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers have no invalid bits and no gaps.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u8 {}

/// The bytes of plain values.
pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: a slice of plain values is that many bytes, all of them initialised; any alignment suits bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// In units of 10^6, rounded up.
const fn megabytes(bytes: usize) -> u64 {
    bytes.div_ceil(1_000_000) as u64
}

/// Memory of the GPU; freed at the end.
pub(crate) struct DeviceBuffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    context: Arc<CudaContext>,
}

impl DeviceBuffer {
    /// So many bytes, not initialised.
    pub(crate) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        context.bind_to_thread().map_err(CudaError::call("cuCtxSetCurrent"))?;
        // SAFETY: a context is current; the address is freed once, in `drop`.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(Self { address, bytes, context: Arc::clone(context) }),
            Err(error) if error.0 == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, _) = context.mem_get_info().unwrap_or_default();
                Err(CudaError::OutOfMemory { needed: megabytes(bytes), free: megabytes(free) })
            }
            Err(error) => Err(CudaError::call("cuMemAlloc")(error)),
        }
    }

    /// These values, copied there. Returns when they are.
    pub(crate) fn of<T: Plain>(context: &Arc<CudaContext>, values: &[T]) -> Result<Self, CudaError> {
        let buffer = Self::new(context, size_of_val(values))?;
        if !values.is_empty() {
            // SAFETY: the buffer has room for them, and the call returns when the values have been read.
            unsafe { result::memcpy_htod_sync(buffer.address, bytes_of(values)) }
                .map_err(CudaError::call("cuMemcpyHtoD"))?;
            // The call returns when the values are in memory of the driver, not yet on the GPU, and the streams that use them
            // are not ordered after it.
            // SAFETY: the default stream always exists.
            unsafe { result::stream::synchronize(result::stream::null()) }
                .map_err(CudaError::call("cuStreamSynchronize"))?;
        }
        Ok(buffer)
    }

    /// Where it begins.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }

    /// How large it is.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the address came from an allocation and is freed nowhere else. The call waits for the GPU's work.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Memory of the host that the GPU copies to and from by itself; freed at the end.
pub(crate) struct PinnedBuffer {
    start: *mut u8,
    bytes: usize,
    context: Arc<CudaContext>,
}

// SAFETY: it owns its memory, which any thread may use.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// So many bytes, all 0.
    pub(crate) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        context.bind_to_thread().map_err(CudaError::call("cuCtxSetCurrent"))?;
        // SAFETY: a context is current; the memory is freed once, in `drop`. Without flags it is ordinary cached memory.
        let start = unsafe { result::malloc_host(bytes, 0) }.map_err(|error| match error.0 {
            sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => {
                CudaError::HostMemory { needed: megabytes(bytes) }
            }
            _ => CudaError::call("cuMemHostAlloc")(error),
        })?;
        let start: *mut u8 = start.cast();
        // SAFETY: the allocation has so many bytes.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { start, bytes, context: Arc::clone(context) })
    }

    /// How large it is.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes. Nobody may be copying to or from them.
    pub(crate) const fn as_slice(&self) -> &[u8] {
        // SAFETY: the allocation has so many bytes, all written in `new`; `&self` keeps others from writing. Copies of the GPU
        // are between `upload` or `download` and the stream's end, for which their callers wait.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    /// The same, to write.
    pub(crate) const fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` keeps others from reading.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// Writes values at an offset in bytes.
    ///
    /// # Panics
    /// If they do not fit: an offset that was worked out for another buffer.
    pub(crate) fn write<T: Plain>(&mut self, offset: usize, values: &[T]) {
        let bytes = bytes_of(values);
        self.as_mut_slice()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Reads values from an offset in bytes.
    ///
    /// # Panics
    /// As [`Self::write`].
    pub(crate) fn read<T: Plain>(&self, offset: usize, values: &mut [T]) {
        let length = size_of_val(values);
        let from = &self.as_slice()[offset..offset + length];
        // SAFETY: `values` has `length` bytes, which do not overlap with this buffer's; any bits are valid values.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), values.as_mut_ptr().cast(), length) };
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the memory came from `malloc_host` and is freed nowhere else.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}

/// A copy between a pinned buffer and the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    host: *mut u8,
    device: sys::CUdeviceptr,
    bytes: usize,
}

// SAFETY: an address; `enqueue_*` says what must hold when it is used.
unsafe impl Send for Transfer {}

impl Transfer {
    /// Between the same range of both.
    ///
    /// # Panics
    /// If the range is not in both.
    pub(crate) fn new(host: &mut PinnedBuffer, device: &DeviceBuffer, range: std::ops::Range<usize>) -> Self {
        assert!(range.end <= host.bytes() && range.end <= device.bytes(), "a transfer outside its buffers");
        let bytes = range.len();
        Self {
            host: host.as_mut_slice()[range.clone()].as_mut_ptr(),
            device: device.address + range.start as u64,
            bytes,
        }
    }

    /// To the GPU, when the stream comes to it.
    ///
    /// # Safety
    /// Both buffers must live, and nobody write to them, until the stream has been waited for.
    pub(crate) unsafe fn enqueue_upload(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: so many bytes are there, and the caller keeps them.
        let bytes = unsafe { std::slice::from_raw_parts(self.host, self.bytes) };
        // SAFETY: as above.
        unsafe { result::memcpy_htod_async(self.device, bytes, stream.cu_stream()) }
            .map_err(CudaError::call("cuMemcpyHtoDAsync"))
    }

    /// From the GPU, when the stream comes to it.
    ///
    /// # Safety
    /// Both buffers must live, and nobody use them, until the stream has been waited for.
    pub(crate) unsafe fn enqueue_download(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: so many bytes are there, and the caller keeps them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.host, self.bytes) };
        // SAFETY: as above.
        unsafe { result::memcpy_dtoh_async(bytes, self.device, stream.cu_stream()) }
            .map_err(CudaError::call("cuMemcpyDtoHAsync"))
    }
}
