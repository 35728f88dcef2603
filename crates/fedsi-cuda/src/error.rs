//! What can go wrong with a GPU.

use cudarc::driver::DriverError;
use thiserror::Error;

/// Why a GPU cannot be used, or cannot go on. Each message is one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CudaError {
    /// A library of CUDA is not on this machine.
    #[error("{library} was not found ({what_for}); looked in {tried}")]
    Library {
        /// Its name: `libnvrtc`.
        library: &'static str,
        /// What it is needed for.
        what_for: &'static str,
        /// The folders that were searched.
        tried: String,
    },
    /// A library that is not what its name says, or too old.
    #[error("{library} has no function `{function}`: it is damaged, or not NVIDIA's of CUDA 12 or later")]
    Incomplete {
        /// Its name.
        library: &'static str,
        /// What it lacks.
        function: &'static str,
    },
    /// There is no GPU, or the driver does not show it.
    #[error("the NVIDIA driver shows no GPU that works: {0}")]
    NoDevice(String),
    /// The GPU is too old for the kernels.
    #[error("{name} has compute capability {major}.{minor}, and at least 8.0 is needed")]
    TooOld {
        /// The GPU.
        name: String,
        /// Its compute capability.
        major: u32,
        /// The part after the dot.
        minor: u32,
    },
    /// There is too little memory on the GPU.
    #[error("the GPU has too little memory: {needed} MB more were asked for, {free} MB are free")]
    OutOfMemory {
        /// MB asked for.
        needed: u64,
        /// MB free.
        free: u64,
    },
    /// There is too little memory of the machine that the GPU can copy to and from.
    #[error("the machine has too little memory for copies to the GPU: {needed} MB more were asked for")]
    HostMemory {
        /// MB asked for.
        needed: u64,
    },
    /// CUDA's driver is older than what it is asked to do.
    #[error("CUDA's driver is for CUDA {major}.{minor}, and 12.0 or later is needed")]
    OldDriver {
        /// The CUDA version that it is made for.
        major: u32,
        /// The part after the dot.
        minor: u32,
    },
    /// A kernel does not compile: a defect of fedsi, or a compiler that is not known to it.
    #[error("a kernel does not compile: {0}")]
    Compile(String),
    /// A call of CUDA failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// What was called.
        call: &'static str,
        /// What CUDA says.
        reason: String,
    },
    /// A network or a setting that kernels do not exist for.
    #[error("the GPU's kernels cannot {0}")]
    Unsupported(String),
    /// Arguments that do not belong together.
    #[error("{what}: found {found}, expected {expected}")]
    Length {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
}

impl CudaError {
    /// A failed call of the driver.
    pub(crate) fn call(call: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |error| Self::Call { call, reason: Self::reason(error) }
    }

    /// CUDA's name of an error and its text, in one line.
    pub(crate) fn reason(error: DriverError) -> String {
        // Shown over several lines otherwise.
        format!("{error:?}").split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
