//! Regular files, opened and read whole.

use std::io::Read as _;
use std::path::Path;

use crate::error::DataError;

/// Opens a regular file and answers it with its length; a folder, pipe or device is refused.
pub(crate) fn open_file(path: &Path) -> Result<(std::fs::File, u64), DataError> {
    let failed = |source| DataError::io("read", path, source);
    let file = std::fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(std::io::Error::other("it is not a file")));
    }
    Ok((file, metadata.len()))
}

/// Reads a whole file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let (mut file, _) = open_file(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|source| DataError::io("read", path, source))?;
    Ok(bytes)
}
