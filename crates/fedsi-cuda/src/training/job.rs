//! What a training kernel is given. The structs are those of `kernels/job.cuh`, field by field.
//!
//! A training kernel is `extern "C" __global__ void NAME(const Job* jobs, const float2* corrections, Settings settings)`.

use fedsi_nn::{Loss, OptimizerSpec};

use crate::memory::Plain;

/// One client's training. Addresses are of device memory (of host memory in the tests that run kernels on a CPU), as
/// integers: 0 where there is nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// `float[parameters]`, in the order of the network's layout: the start, and in the end the result. What does not move
    /// stays as it is.
    pub values: u64,
    /// `float[samples][inputs]`; aligned to 16 bytes.
    pub inputs: u64,
    /// `int[samples]` (classes) or `float[samples][targets]`.
    pub targets: u64,
    /// `int[steps][batch_stride]`: a batch's rows, 0 where it is shorter; the last entry is how many there are.
    pub batches: u64,
    /// `float[parameters]`, where a prior pulls.
    pub prior_mean: u64,
    /// `float[parameters]`: adds `1/2 sum weight (value - mean)^2` to the loss.
    pub prior_weight: u64,
    /// `float[Kernel::workspace]`, aligned to 128 bytes, not initialised.
    pub workspace: u64,
    /// `int`, 0 before the launch: the counter by which a client's blocks wait for each other; 128 bytes for itself.
    pub counter: u64,
    /// `float[steps]`: each batch's mean loss before its step, without the prior's part.
    pub losses: u64,
    /// Key of the client's random draws.
    pub noise_key: u64,
    /// Steps.
    pub steps: i32,
    /// Entries of a batch: at least one more than its largest size, a multiple of 4.
    pub batch_stride: i32,
}

/// What is the same for all clients of a launch, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// Learning rate (of SGD; Adam's is in the corrections).
    pub rate: f32,
    /// Adam.
    pub beta1: f32,
    /// Adam.
    pub beta2: f32,
    /// Adam.
    pub epsilon: f32,
    /// SGD.
    pub momentum: f32,
    /// `1 / noise^2` of the Gaussian loss.
    pub precision: f32,
    /// Standard deviation of the noise in linear layers that move.
    pub weight_noise: f32,
    /// The same in convolutions.
    pub convolution_noise: f32,
}

/// Adam's bias corrections at one step: `value -= rate * m / (sqrt(v) * scale + epsilon)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    /// `learning rate / (1 - beta1^t)`.
    pub rate: f32,
    /// `1 / sqrt(1 - beta2^t)`.
    pub scale: f32,
}

impl Settings {
    /// Of this optimiser, loss and noise.
    #[must_use]
    pub fn new(optimizer: OptimizerSpec, loss: Loss, weight_noise: f64, convolution_noise: f64) -> Self {
        let mut settings = Self {
            weight_noise: weight_noise as f32,
            convolution_noise: convolution_noise as f32,
            precision: match loss {
                Loss::CrossEntropy => 1.0,
                Loss::Gaussian { noise } => (1.0 / (noise * noise)) as f32,
            },
            ..Self::default()
        };
        match optimizer {
            OptimizerSpec::Adam { rate, beta1, beta2, epsilon } => {
                settings.rate = rate as f32;
                settings.beta1 = beta1 as f32;
                settings.beta2 = beta2 as f32;
                settings.epsilon = epsilon as f32;
            }
            OptimizerSpec::Sgd { rate, momentum } => {
                settings.rate = rate as f32;
                settings.momentum = momentum as f32;
            }
        }
        settings
    }
}

impl Correction {
    /// Of the first `steps` steps, worked out in f64 as on the CPU; the same rate throughout for SGD.
    #[must_use]
    pub fn of_steps(optimizer: OptimizerSpec, steps: usize) -> Vec<Self> {
        let steps = 1..=i32::try_from(steps).unwrap_or(i32::MAX);
        match optimizer {
            OptimizerSpec::Adam { rate, beta1, beta2, .. } => steps
                .map(|step| Self {
                    rate: (rate / (1.0 - beta1.powi(step))) as f32,
                    scale: (1.0 / (1.0 - beta2.powi(step)).sqrt()) as f32,
                })
                .collect(),
            OptimizerSpec::Sgd { rate, .. } => {
                steps.map(|_| Self { rate: rate as f32, scale: 1.0 }).collect()
            }
        }
    }
}

// SAFETY: numbers alone, and no gaps: ten of 8 bytes, then two of 4.
unsafe impl Plain for Job {}
const _: () = assert!(size_of::<Job>() == 88, "as in the kernel");
// SAFETY: eight numbers of 4 bytes.
unsafe impl Plain for Settings {}
const _: () = assert!(size_of::<Settings>() == 32, "as in the kernel");
