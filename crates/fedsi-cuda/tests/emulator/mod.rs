//! Kernels on a CPU: their source, compiled by the host's C++ compiler behind headers that supply what CUDA C++ has beyond
//! C++ (`cpp/`), with the threads of all blocks as fibers.
//!
//! What it finds: wrong results, reads of shared memory that nobody wrote (no numbers), writes behind a buffer, misaligned
//! vector loads, deadlocks, lanes of a warp that are not at the same collective. What it does not: races that no order of
//! threads shows, registers, speed.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod buffer;
mod compile;
pub(crate) mod networks;
pub(crate) mod philox;
mod shared_memory;

use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;

use fedsi_cuda::kernel::{Kernel, Launch};
use fedsi_cuda::training::Correction;
use libloading::Library;

pub(crate) use buffer::Buffer;
pub(crate) use compile::CompileError;

/// In which order threads go on that can: a kernel's result must not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first thread of the first block first.
    #[default]
    Forward,
    /// The last first.
    Reverse,
    /// By this seed.
    Shuffled(u32),
}

impl Order {
    /// A few that differ: for tests of whether barriers are missing.
    pub(crate) const SEVERAL: [Self; 3] = [Self::Forward, Self::Reverse, Self::Shuffled(7)];

    fn number(self) -> u32 {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
            Self::Shuffled(seed) => seed.max(2),
        }
    }
}

/// `fedsi_emulated_launch` of `cpp/launch.h`.
type LaunchFunction =
    unsafe extern "C" fn(*const *const c_void, c_int, u32, u32, u32, u32, u32, *mut c_char, usize) -> c_int;

/// A compiled kernel.
pub(crate) struct Emulated {
    launch: LaunchFunction,
    threads: u32,
    shared_bytes: u32,
    blocks_per_client: u32,
    cluster_blocks: u32,
    /// In which order threads go on.
    pub(crate) order: Order,
    _library: Library,
}

impl Emulated {
    /// Compiles a kernel. Takes a second or two.
    pub(crate) fn compile(kernel: &Kernel) -> Result<Self, CompileError> {
        let library = compile::shared_library(&kernel.source, kernel.entry)?;
        // SAFETY: the symbol is the function of cpp/launch.h, whose signature this is; the library stays loaded as long as
        // the pointer is kept.
        #[allow(unsafe_code)]
        let launch =
            unsafe { *library.get::<LaunchFunction>(b"fedsi_emulated_launch").map_err(CompileError::load)? };
        Ok(Self {
            launch,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes,
            blocks_per_client: kernel.blocks_per_client,
            cluster_blocks: if kernel.launch == Launch::Cluster { kernel.blocks_per_client } else { 1 },
            order: Order::Forward,
            _library: library,
        })
    }

    /// Compiles a kernel; says that a test is skipped where there is no compiler, and fails it where the source is wrong.
    pub(crate) fn compile_or_skip(kernel: &Kernel) -> Option<Self> {
        match Self::compile(kernel) {
            Ok(emulated) => Some(emulated),
            Err(CompileError::NoCompiler(tried)) => {
                // Not `eprintln`, whose output is hidden where a test passes.
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: kernels are tested by a C++ compiler, and there is none (looked for {tried})"
                );
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A launch of a training kernel, `NAME(const Job* jobs, const float2* corrections, Settings settings)`, with jobs whose
    /// addresses are the host's. The message says which thread failed where.
    pub(crate) fn launch<J: Copy, S: Copy>(
        &self,
        jobs: &[J],
        corrections: &[Correction],
        settings: S,
    ) -> Result<(), String> {
        let (jobs_at, corrections_at) = (jobs.as_ptr(), corrections.as_ptr());
        self.launch_with(
            jobs.len() as u32,
            &[argument(&jobs_at), argument(&corrections_at), argument(&settings)],
        )
    }

    /// A launch of a kernel `NAME(const Job* jobs, Settings settings)`.
    pub(crate) fn launch_jobs<J: Copy, S: Copy>(&self, jobs: &[J], settings: S) -> Result<(), String> {
        let jobs_at = jobs.as_ptr();
        self.launch_with(jobs.len() as u32, &[argument(&jobs_at), argument(&settings)])
    }

    /// A launch of a kernel `NAME(const Job* jobs)`.
    pub(crate) fn launch_jobs_alone<J: Copy>(&self, jobs: &[J]) -> Result<(), String> {
        let jobs_at = jobs.as_ptr();
        self.launch_with(jobs.len() as u32, &[argument(&jobs_at)])
    }

    /// A launch for so many clients with these arguments ([`argument`]). They must be of the kernel's types.
    pub(crate) fn launch_with(&self, clients: u32, arguments: &[*const c_void]) -> Result<(), String> {
        let blocks = clients * self.blocks_per_client;
        self.launch_blocks(blocks, arguments)
    }

    /// A launch of so many blocks.
    pub(crate) fn launch_blocks(&self, blocks: u32, arguments: &[*const c_void]) -> Result<(), String> {
        let mut message = vec![0_u8; 4096];
        // SAFETY: the arguments point to values that outlive the call, and the function checks how many there are; the
        // message has the length that is named. What the kernel does with the addresses in its jobs is what tests are for.
        #[allow(unsafe_code)]
        let status = unsafe {
            (self.launch)(
                arguments.as_ptr(),
                arguments.len() as c_int,
                blocks,
                self.threads,
                self.shared_bytes,
                self.cluster_blocks,
                self.order.number(),
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        if status == 0 {
            return Ok(());
        }
        let end = message.iter().position(|&byte| byte == 0).unwrap_or(message.len());
        Err(String::from_utf8_lossy(&message[..end]).into_owned())
    }
}

/// An argument of a launch.
pub(crate) fn argument<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}
