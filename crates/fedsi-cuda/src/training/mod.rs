//! Training on the GPU: kernels that take a client through all its steps in one launch.

pub mod general;
mod job;
pub mod mlp;
mod request;

pub use job::{Correction, Job, Settings};
pub use request::{LossKind, OptimizerKind, TrainingRequest};

use crate::CudaError;
use crate::kernel::{DeviceLimits, Kernel};

/// Kernels for this training, the fastest first; one that the GPU has too few resources for makes way for the next.
///
/// # Errors
/// Sizes that no kernel can have.
pub fn kernels(request: &TrainingRequest<'_>, limits: &DeviceLimits) -> Result<Vec<Kernel>, CudaError> {
    Ok(mlp::kernel(request, limits).into_iter().chain([general::kernel(request, limits)?]).collect())
}
