//! Tensor files: the bytes are the engine's, the files are written whole or not at all.

use std::path::Path;

pub use fedsi_fl::wire::{NamedTensor, TensorFileError, tensor_bytes};
pub(crate) use fedsi_fl::wire::{TensorFile, checked_tensor_bytes, parameter_tensors};

use crate::files::{Readers, WriteError, write_failed, write_for, write_whole};

/// Writes tensors as a file, whole or not at all. `entry` becomes its only metadata.
///
/// # Errors
/// What the system says, with the path.
pub fn write_tensors(
    path: &Path,
    tensors: &[NamedTensor],
    entry: Option<&serde_json::Value>,
) -> Result<(), WriteError> {
    write_whole(path, &tensor_bytes(tensors, entry).map_err(invalid(path))?)
}

/// The same with a checksum of everything in the entry, for chosen readers.
pub(crate) fn write_checked_tensors(
    path: &Path,
    readers: Readers,
    tensors: &[NamedTensor],
    entry: &serde_json::Value,
) -> Result<(), WriteError> {
    write_for(readers, path, &checked_tensor_bytes(tensors, entry).map_err(invalid(path))?)
}

fn invalid(path: &Path) -> impl FnOnce(TensorFileError) -> WriteError + '_ {
    move |error| write_failed(path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}
