//! Checksums.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::dataset::RemoteFile;
use crate::error::DataError;
use crate::read::idx;

/// SHA-256 and length of what a reader gives, up to `most` bytes and one more.
pub(crate) fn digest(reader: impl Read, most: u64) -> std::io::Result<(String, u64)> {
    let mut reader = reader.take(most.saturating_add(1));
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 16];
    let mut length = 0;
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        length += count as u64;
    }
    Ok((hexadecimal(&hash.finalize()), length))
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whether a file has the official bytes, packed as published, packed otherwise, or unpacked.
pub(crate) fn is_right(file: &RemoteFile, path: &Path) -> Result<bool, DataError> {
    let open = || File::open(path).map_err(|source| DataError::io("read", path, source));
    let (sum, _) = digest(open()?, u64::MAX - 1).map_err(|source| DataError::io("read", path, source))?;
    if sum == file.sha256 {
        return Ok(true);
    }
    let Some((size, expected)) = file.unpacked else { return Ok(false) };
    if sum == expected {
        return Ok(true);
    }
    // A broken stream is simply not the right file.
    let unpacked = digest(MultiGzDecoder::new(BufReader::new(open()?)), size);
    Ok(unpacked.is_ok_and(|(sum, length)| length == size && sum == expected))
}

/// Whether the file that would be read from the folder has the official bytes; `None` where there is no such file.
pub(crate) fn is_there(file: &RemoteFile, folder: &Path) -> Result<Option<(PathBuf, bool)>, DataError> {
    let Some(path) = idx::locate(folder, file.name.trim_end_matches(".gz")) else { return Ok(None) };
    let right = is_right(file, &path)?;
    Ok(Some((path, right)))
}
