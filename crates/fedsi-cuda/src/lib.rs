//! Clients' work on an NVIDIA GPU.

mod activation;
pub mod algebra;
mod arena;
mod batcher;
mod compile;
mod device;
mod dispatcher;
mod error;
mod executor;
pub mod forward;
pub mod gaussian;
pub mod kernel;
pub mod langevin;
mod launch;
mod libraries;
mod memory;
mod network;
mod resident;
mod shared;
pub mod training;

pub use device::Device;
pub use error::CudaError;
pub use executor::CudaExecutor;
pub use network::CudaNetwork;
pub use shared::shared_device;
