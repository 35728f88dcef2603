//! What the kernel is given: the structs of `kernels/langevin.cuh`, field by field.

use fedsi_nn::{LangevinSpec, Loss};

use crate::memory::Plain;

/// One client's chain. Addresses are of device memory, as integers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LangevinJob {
    /// `float[parameters of the head]`, weights before biases: where the chain starts, and in the end its newest state.
    pub values: u64,
    /// `float[rows][features]`.
    pub features: u64,
    /// `int[rows]` (classes) or `float[rows][outputs]`.
    pub targets: u64,
    /// `float[LangevinSettings::kept][parameters of the head]`: the samples that are kept.
    pub samples: u64,
    /// `float[Kernel::workspace]`, aligned to 128 bytes.
    pub workspace: u64,
    /// `int`, 0 before the launch; 128 bytes for itself.
    pub counter: u64,
    /// `float`: the mean loss a row before the last step; not written where there are no steps.
    pub loss: u64,
    /// Key of the client's random draws.
    pub noise_key: u64,
    /// Rows.
    pub rows: i32,
    /// Fills the struct to a multiple of 8 bytes.
    pub unused: i32,
}

// SAFETY: numbers alone, and no gaps: addresses, then two numbers of 4 bytes.
unsafe impl Plain for LangevinJob {}
const _: () = assert!(size_of::<LangevinJob>() == 72, "as in the kernel");

/// What is the same for all clients of a launch, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LangevinSettings {
    /// Step size.
    pub step: f32,
    /// 1 / variance of every parameter before the data.
    pub prior_precision: f32,
    /// How much a row's loss counts.
    pub weight: f32,
    /// `1 / noise^2` of the Gaussian loss.
    pub precision: f32,
    /// Steps in all.
    pub steps: i32,
    /// How many of them are discarded first.
    pub discard: i32,
    /// Of the others one in so many is kept, the last of each; at least 1.
    pub thin: i32,
}

// SAFETY: seven numbers of 4 bytes.
unsafe impl Plain for LangevinSettings {}
const _: () = assert!(size_of::<LangevinSettings>() == 28, "as in the kernel");

impl LangevinSettings {
    /// Of this chain.
    #[must_use]
    pub fn new(spec: LangevinSpec, loss: Loss, steps: usize, discard: usize, thin: usize) -> Self {
        let count = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        Self {
            step: spec.step as f32,
            prior_precision: (1.0 / spec.prior_variance) as f32,
            weight: spec.weight as f32,
            precision: match loss {
                Loss::CrossEntropy => 1.0,
                Loss::Gaussian { noise } => (1.0 / (noise * noise)) as f32,
            },
            steps: count(steps),
            discard: count(discard),
            thin: count(thin.max(1)),
        }
    }

    /// How many samples a chain keeps.
    #[must_use]
    pub fn kept(&self) -> usize {
        (self.steps.saturating_sub(self.discard).max(0) / self.thin.max(1)) as usize
    }
}
