//! Tensor files: the bytes are the engine's, the files are written whole or not at all.

use std::path::Path;

pub use fedsi_fl::wire::{NamedTensor, TensorFileError, tensor_bytes};
pub(crate) use fedsi_fl::wire::{TensorFile, parameter_tensors};

use crate::files::{WriteError, write_failed, write_whole};

/// Writes tensors as a file, whole or not at all. `entry` becomes its only metadata.
///
/// # Errors
/// What the system says, with the path.
pub fn write_tensors(
    path: &Path,
    tensors: &[NamedTensor],
    entry: Option<&serde_json::Value>,
) -> Result<(), WriteError> {
    let invalid = |error: TensorFileError| {
        write_failed(path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    };
    write_whole(path, &tensor_bytes(tensors, entry).map_err(invalid)?)
}
