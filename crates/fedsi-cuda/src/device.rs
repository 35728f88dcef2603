//! A GPU: what it is like, its kernels, the clients' data on it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys};
use cudarc::nvrtc::Ptx;

use crate::CudaError;
use crate::algebra::CudaAlgebra;
use crate::compile::Compiler;
use crate::kernel::{DeviceLimits, Kernel};
use crate::launch::LoadedKernel;
use crate::libraries::CudaLibrary;
use crate::resident::ResidentData;

/// Compute capability from which on kernels work: asynchronous copies to shared memory, and products on tensor cores with f32's
/// exponents.
const OLDEST: u32 = 80;

/// Version of CUDA that the driver must be made for: launches of clusters are older, so that no call of this crate is missing.
const OLDEST_DRIVER: u32 = 12_000;

/// A GPU that several runs may share.
pub struct Device {
    context: Arc<CudaContext>,
    name: String,
    limits: DeviceLimits,
    compiler: Compiler,
    kernels: Mutex<HashMap<String, KernelSlot>>,
    data: Mutex<ResidentData>,
    /// Linear algebra of posteriors; none where its libraries are missing.
    algebra: OnceLock<Option<Arc<CudaAlgebra>>>,
}

/// A kernel that is being compiled by one thread, while others wait for it, or is loaded.
type KernelSlot = Arc<OnceLock<Result<Arc<LoadedKernel>, CudaError>>>;

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Device")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// The first GPU that CUDA shows (`CUDA_VISIBLE_DEVICES` decides which that is). Costs some tenths of a second.
    ///
    /// # Errors
    /// No driver, no compiler, no GPU, or one that is too old.
    pub fn open() -> Result<Arc<Self>, CudaError> {
        CudaLibrary::Driver.find()?;
        CudaLibrary::Compiler.find()?;
        let no_device = |error: DriverError| {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").map_or_else(
                |_| String::new(),
                |value| format!(" (CUDA_VISIBLE_DEVICES is {value:?}, and decides which GPUs are seen)"),
            );
            CudaError::NoDevice(format!("{}{visible}", CudaError::reason(error)))
        };
        let version = driver_version()?;
        if version < OLDEST_DRIVER {
            return Err(CudaError::OldDriver { major: version / 1000, minor: version % 1000 / 10 });
        }
        wait_asleep().map_err(no_device)?;
        let context = CudaContext::new(0).map_err(no_device)?;
        // SAFETY: cudarc's own buffers, which events would guard, are only used on one stream each (`algebra`), and every
        // other buffer is waited for by whoever copies to it or from it (`memory`, `dispatcher`).
        unsafe { context.disable_event_tracking() };
        let name = context.name().map_err(CudaError::call("cuDeviceGetName"))?;
        let (major, minor) = context.compute_capability().map_err(CudaError::call("cuDeviceGetAttribute"))?;
        let (major, minor) = (major.unsigned_abs(), minor.unsigned_abs());
        let architecture = 10 * major + minor;
        if architecture < OLDEST {
            return Err(CudaError::TooOld { name, major, minor });
        }
        let attribute = |which| {
            context.attribute(which).map(i32::unsigned_abs).map_err(CudaError::call("cuDeviceGetAttribute"))
        };
        let limits = DeviceLimits {
            architecture,
            multiprocessors: attribute(
                sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )?,
            shared_bytes: attribute(
                sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
        };
        let (_, total) = context.mem_get_info().map_err(CudaError::call("cuMemGetInfo"))?;
        let compiler = Compiler::new(architecture)?;
        Ok(Arc::new(Self {
            name,
            limits,
            compiler,
            kernels: Mutex::default(),
            // The rest is for what clients work with.
            data: Mutex::new(ResidentData::new(total / 2)),
            algebra: OnceLock::new(),
            context,
        }))
    }

    /// The GPU's name: `NVIDIA H200`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What decides the bits of results: its name, and the compiler of its kernels.
    #[must_use]
    pub fn kind(&self) -> String {
        format!("{}, CUDA {}", self.name, self.compiler.version())
    }

    /// What decides which kernels it can run.
    #[must_use]
    pub const fn limits(&self) -> DeviceLimits {
        self.limits
    }

    /// CUDA's context.
    #[must_use]
    pub const fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// A queue of work.
    pub(crate) fn new_stream(&self) -> Result<Arc<CudaStream>, CudaError> {
        self.context.new_stream().map_err(CudaError::call("cuStreamCreate"))
    }

    /// A kernel, ready to launch: as it was loaded before, or compiled now while other threads that want it wait.
    pub(crate) fn load(&self, kernel: &Kernel) -> Result<Arc<LoadedKernel>, CudaError> {
        let slot = Arc::clone(lock(&self.kernels).entry(kernel.source.clone()).or_default());
        let loaded = slot.get_or_init(|| {
            let code = self.compiler.machine_code(&kernel.source)?;
            LoadedKernel::new(&self.context, code, kernel, self.limits).map(Arc::new)
        });
        if loaded.is_err() {
            // What was short of memory just now may not be the next time.
            lock(&self.kernels).remove(&kernel.source);
        }
        loaded.clone()
    }

    /// Linear algebra of posteriors on this GPU; none, with a warning, where CUDA's libraries for it are missing: the CPU then
    /// does it.
    pub(crate) fn algebra(&self) -> Option<&Arc<CudaAlgebra>> {
        let made = || {
            let compile = |source: &str, entry: &str| {
                let code = self.compiler.machine_code(source)?;
                let module = self.context.load_module(Ptx::from_binary(code));
                let module = module.map_err(CudaError::call("cuModuleLoadData"))?;
                module.load_function(entry).map_err(CudaError::call("cuModuleGetFunction"))
            };
            CudaAlgebra::new(Arc::clone(&self.context), &compile)
        };
        let or_warning = |made: Result<CudaAlgebra, CudaError>| match made {
            Ok(algebra) => Some(Arc::new(algebra)),
            Err(error) => {
                tracing::warn!("posteriors are computed on the CPU, since {error}");
                None
            }
        };
        self.algebra.get_or_init(|| or_warning(made())).as_ref()
    }

    /// Clients' data on this GPU.
    pub(crate) fn data(&self) -> MutexGuard<'_, ResidentData> {
        lock(&self.data)
    }
}

/// The CUDA version that the driver is made for: 12080 for 12.8.
fn driver_version() -> Result<u32, CudaError> {
    let mut version = 0;
    // SAFETY: the place is valid for an int, which is all that the call writes; it needs no initialisation.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(CudaError::call("cuDriverGetVersion"))?;
    Ok(version.unsigned_abs())
}

/// Lets threads that wait for the first GPU sleep: by default each would keep a core busy, and runs side by side as many cores as
/// runs, which posteriors and predictions need. A context that another library made in this process keeps its own way to wait.
fn wait_asleep() -> Result<(), DriverError> {
    cudarc::driver::result::init()?;
    let first = cudarc::driver::result::device::get(0)?;
    let flags = sys::CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC;
    // SAFETY: the driver is initialised, and the device is one that it named.
    let set = unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(first, flags as u32) };
    if set == sys::CUresult::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE { Ok(()) } else { set.result() }
}

/// Locked for moments, by code that does not panic: a poisoned lock still guards sound data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
