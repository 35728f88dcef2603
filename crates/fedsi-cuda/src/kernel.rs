//! A kernel as source, with how it is launched.

/// What decides which kernels a GPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceLimits {
    /// Compute capability, 90 for 9.0.
    pub architecture: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most bytes of shared memory that a block can ask for.
    pub shared_bytes: u32,
}

impl DeviceLimits {
    /// An H200's, on which the kernels were tuned.
    pub const H200: Self = Self { architecture: 90, multiprocessors: 132, shared_bytes: 232_448 };

    /// Blocks of a client in kernels whose blocks each fill a multiprocessor, so that ten clients fill the GPU. It does not
    /// follow how many clients there are: the order of sums does.
    #[must_use]
    pub const fn blocks_per_client(&self) -> u32 {
        let blocks = self.multiprocessors / 10;
        if blocks == 0 { 1 } else { blocks }
    }

    /// Whether blocks can form clusters that read each other's shared memory.
    #[must_use]
    pub const fn has_clusters(&self) -> bool {
        self.architecture >= 90
    }
}

/// Source of a kernel that works on several clients at once, `blocks_per_client` blocks each: block b belongs to client
/// `b / blocks_per_client`. What a client's result is does not depend on the other clients of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// A whole translation unit of CUDA C++, without includes.
    pub source: String,
    /// The function, `extern "C"`.
    pub entry: &'static str,
    /// Blocks of a client.
    pub blocks_per_client: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Values (f32) of global memory that a client's blocks need while they work; not initialised.
    pub workspace: usize,
    /// How the blocks of a client wait for each other.
    pub launch: Launch,
}

/// How the blocks of a client wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launch {
    /// They do not.
    Independent,
    /// Through a counter in global memory, so that all blocks of a launch must be resident at once: a cooperative launch, of
    /// no more clients than fit.
    Cooperative,
    /// They form a cluster; clients that do not fit wait for others to end.
    Cluster,
}
