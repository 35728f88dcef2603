//! NPZ: `NumPy`'s archive of arrays, which may be deflated.

use std::io::{Cursor, Read as _};
use std::path::Path;

use fedsi_data::npy_numbers;
use fedsi_fl::memory;
use zip::ZipArchive;

use super::arrays::{Array, Arrays, WANTED, predictions};
use super::{ExternalError, ExternalPredictions};

/// Most bytes of an array where the system does not say how much memory there is.
const LARGEST: u64 = 4 << 30;

/// Reads the arrays that are wanted. What an entry says of its size is compared with the memory at hand before it is
/// inflated, and no more than that is: a few kilobytes can claim, and hold, any number of zeros.
pub(super) fn read(path: &Path, bytes: Vec<u8>) -> Result<ExternalPredictions, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let mut archive = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| bad(format!("is no NPZ file: {error}; save it with numpy.savez")))?;
    let own = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
    let mut held: Vec<String> = archive.file_names().filter_map(Result::ok).map(|name| own(&name)).collect();
    held.sort_unstable();
    // A quarter: bytes, numbers and what is computed from them are there at once.
    let most = memory::available().map_or(LARGEST, |free| free / 4);
    let mut arrays = Arrays::new();
    for name in WANTED.iter().filter(|name| held.iter().any(|held| held == *name)) {
        let failed = |error: &dyn std::fmt::Display| bad(format!("`{name}` cannot be read: {error}"));
        let mut entry = archive.by_name(&format!("{name}.npy")).map_err(|error| failed(&error))?;
        let size = entry.size();
        if size > most {
            return Err(bad(format!(
                "`{name}` would take {:.1} GB of memory inflated, and {:.1} GB can be had for it",
                size as f64 / 1e9,
                most as f64 / 1e9
            )));
        }
        let mut content = Vec::new();
        entry
            .by_ref()
            .take(size.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|error| failed(&error))?;
        if content.len() as u64 != size {
            return Err(bad(format!("`{name}` holds other than the {size} bytes that the archive says")));
        }
        let (shape, values) =
            npy_numbers(Path::new(name), &content).map_err(|error| bad(error.to_string()))?;
        arrays.insert((*name).to_owned(), Array { shape, values });
    }
    predictions(path, arrays, &held)
}
