//! A kernel in the GPU's memory, and its launches.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, sys};
use cudarc::nvrtc::Ptx;

use crate::CudaError;
use crate::kernel::{DeviceLimits, Kernel, Launch};

/// A compiled kernel.
pub(crate) struct LoadedKernel {
    function: CudaFunction,
    blocks_per_client: u32,
    threads: u32,
    shared_bytes: u32,
    workspace: usize,
    launch: Launch,
    /// Clients that one launch takes.
    clients: usize,
}

impl LoadedKernel {
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        code: Vec<u8>,
        kernel: &Kernel,
        limits: DeviceLimits,
    ) -> Result<Self, CudaError> {
        let &Kernel { entry, blocks_per_client, threads, shared_bytes, workspace, launch, .. } = kernel;
        let module =
            context.load_module(Ptx::from_binary(code)).map_err(CudaError::call("cuModuleLoadData"))?;
        let function = module.load_function(entry).map_err(CudaError::call("cuModuleGetFunction"))?;
        let bytes = i32::try_from(shared_bytes).unwrap_or(i32::MAX);
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(attribute, bytes).map_err(CudaError::call("cuFuncSetAttribute"))?;
        let mut loaded = Self {
            function,
            blocks_per_client,
            threads,
            shared_bytes,
            workspace,
            launch,
            clients: usize::MAX,
        };
        loaded.clients = loaded.most_clients(limits)?;
        Ok(loaded)
    }

    /// Values (f32) of workspace of a client.
    pub(crate) const fn workspace(&self) -> usize {
        self.workspace
    }

    /// Clients that one launch takes.
    pub(crate) const fn clients(&self) -> usize {
        self.clients
    }

    fn most_clients(&self, limits: DeviceLimits) -> Result<usize, CudaError> {
        let unfit = |what: &str| {
            CudaError::Unsupported(format!(
                "put {} {what} of {} bytes each on it",
                self.blocks_per_client, self.shared_bytes
            ))
        };
        match self.launch {
            // As many as a grid has, less than enough to matter.
            Launch::Independent => Ok(1 << 16),
            Launch::Cooperative => {
                let (threads, shared) = (self.threads, self.shared_bytes as usize);
                let blocks = self
                    .function
                    .occupancy_max_active_blocks_per_multiprocessor(threads, shared, None)
                    .map_err(CudaError::call("cuOccupancyMaxActiveBlocksPerMultiprocessor"))?;
                let clients = blocks * limits.multiprocessors / self.blocks_per_client.max(1);
                if clients == 0 { Err(unfit("blocks")) } else { Ok(clients as usize) }
            }
            Launch::Cluster => {
                let mut clusters = 0;
                let mut attributes = self.attributes();
                let config = self.config(1, std::ptr::null_mut(), &mut attributes);
                // SAFETY: the config and the attributes it points to live until the call is over; the function is loaded.
                unsafe {
                    sys::cuOccupancyMaxActiveClusters(
                        &raw mut clusters,
                        self.function.cu_function(),
                        &raw const config,
                    )
                }
                .result()
                .map_err(CudaError::call("cuOccupancyMaxActiveClusters"))?;
                if clusters == 0 { Err(unfit("blocks in a cluster")) } else { Ok(1 << 16) }
            }
        }
    }

    /// Launches it for clients whose jobs are in device memory; `parameters` follow them as the kernel's further parameters.
    ///
    /// # Safety
    /// `jobs` must be an array of as many of the kernel's jobs, whose addresses are of memory that is large enough and stays
    /// until the stream has been waited for; `parameters` must be of the kernel's own types.
    pub(crate) unsafe fn launch(
        &self,
        stream: &CudaStream,
        clients: usize,
        jobs: u64,
        parameters: &[Vec<u8>],
    ) -> Result<(), CudaError> {
        let mut attributes = self.attributes();
        let clients = u32::try_from(clients).unwrap_or(u32::MAX);
        let config = self.config(clients, stream.cu_stream(), &mut attributes);
        let first: *const u64 = &raw const jobs;
        let mut pointers: Vec<*mut c_void> = vec![first.cast_mut().cast()];
        // Copied to memory that is aligned for any parameter.
        let mut aligned: Vec<Vec<u64>> =
            parameters.iter().map(|bytes| vec![0; bytes.len().div_ceil(8)]).collect();
        for (aligned, bytes) in aligned.iter_mut().zip(parameters) {
            // SAFETY: there is room for the bytes, and the two do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), aligned.as_mut_ptr().cast(), bytes.len())
            };
            pointers.push(aligned.as_mut_ptr().cast());
        }
        // SAFETY: config, attributes and parameters live until the call is over, which copies them; what the caller promises
        // makes the kernel's own accesses sound.
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function.cu_function(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .result()
        .map_err(CudaError::call("cuLaunchKernelEx"))
    }

    fn config(
        &self,
        clients: u32,
        stream: sys::CUstream,
        attributes: &mut [sys::CUlaunchAttribute],
    ) -> sys::CUlaunchConfig {
        sys::CUlaunchConfig {
            gridDimX: self.blocks_per_client * clients,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        }
    }

    fn attributes(&self) -> Vec<sys::CUlaunchAttribute> {
        let attribute = |id, set: &dyn Fn(&mut sys::CUlaunchAttributeValue)| {
            let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
            set(&mut value);
            sys::CUlaunchAttribute { id, pad: [0; 4], value }
        };
        match self.launch {
            Launch::Independent => Vec::new(),
            Launch::Cooperative => {
                let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
                vec![attribute(id, &|value| value.cooperative = 1)]
            }
            Launch::Cluster => {
                let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
                let x = self.blocks_per_client;
                vec![attribute(id, &|value| {
                    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 };
                })]
            }
        }
    }
}
