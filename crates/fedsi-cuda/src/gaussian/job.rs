//! What the kernel is given: the struct of `kernels/gaussian.cuh`, field by field.

use crate::memory::Plain;

/// One client's training of a Gaussian. Addresses are of device memory, as integers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GaussianJob {
    /// `float[parameters]`, in the order of the network's layout: means at the start, and in the end the result. What does
    /// not move stays as it is.
    pub mean: u64,
    /// `float[parameters]`: standard deviations, above 0; in the end the result.
    pub deviation: u64,
    /// `float[parameters]`: means of the reference, in memory of its own also where it is the start. In the end its result,
    /// where it is trained.
    pub reference_mean: u64,
    /// `float[parameters]`: its standard deviations.
    pub reference_deviation: u64,
    /// `float[samples][inputs]`.
    pub inputs: u64,
    /// `int[samples]` (classes) or `float[samples][targets]`.
    pub targets: u64,
    /// `int[steps][batch_stride]`: a batch's rows; the last entry is how many there are.
    pub batches: u64,
    /// `float[Kernel::workspace]`, aligned to 128 bytes, not initialised.
    pub workspace: u64,
    /// `int`, 0 before the launch; 128 bytes for itself.
    pub counter: u64,
    /// `float[steps]`: each batch's mean loss under its draw, without the divergence.
    pub losses: u64,
    /// Key of the client's random draws.
    pub noise_key: u64,
    /// Steps.
    pub steps: i32,
    /// Entries of a batch: at least one more than its largest size.
    pub batch_stride: i32,
    /// Weight of the divergence.
    pub weight: f32,
    /// Steps for each of the reference, where it is trained; at least 1.
    pub inner_steps: i32,
}

// SAFETY: numbers alone, and no gaps: eleven of 8 bytes, then four of 4.
unsafe impl Plain for GaussianJob {}
const _: () = assert!(size_of::<GaussianJob>() == 104, "as in the kernel");
