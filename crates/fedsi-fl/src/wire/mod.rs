//! What travels between server and clients, and between a simulation and whoever does its work.
//!
//! Every message is a safetensors file in memory, so that any language can read it, with a header in JSON that names the
//! kind of message and the version of the format. The simulation counts the bytes of messages without writing them; a
//! deployment sends just these.

mod calibration_scores;
mod download;
mod header;
mod parameters;
mod strangeness;
mod tensors;
#[cfg(test)]
mod tests;
mod upload;

pub use calibration_scores::CalibrationScores;
pub use download::{Download, SharedMode};
pub use header::{VERSION, WireError};
pub(crate) use header::{decode, encode};
pub use parameters::{
    PosteriorHeader, decode_parameters, encode_parameters, laplace_tensors, posterior_tensors, read_kept,
    read_laplace, read_posterior, read_shared,
};
pub use strangeness::{read_strangeness, strangeness_tensors};
pub use tensors::{
    NamedTensor, TensorFile, TensorFileError, checked_tensor_bytes, mode_prefix, parameter_tensors,
    tensor_bytes,
};
pub use upload::{Upload, VarianceError, Variances};

use serde::{Deserialize, Serialize};

/// Bytes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// From clients to the server.
    pub up: u64,
    /// From the server to clients.
    pub down: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.up += other.up;
        self.down += other.down;
    }
}
