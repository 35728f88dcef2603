//! CIFAR-10's binary batches: records of a label and 3 x 32 x 32 bytes.

use std::io::Read as _;
use std::path::Path;

use crate::error::DataError;
use crate::file::open_file;

/// Bytes of an image.
pub(crate) const PIXELS: usize = 3 * 32 * 32;
/// Bytes of a record: the label, then the image.
pub(crate) const RECORD: usize = 1 + PIXELS;
const CLASSES: u8 = 10;
const AGAIN: &str = "the file is damaged or of another kind: fetch or copy it again";

/// Reads a batch and appends its images and labels. Costs the batch's bytes twice while it runs.
pub(crate) fn read_batch(path: &Path, images: &mut Vec<u8>, labels: &mut Vec<u32>) -> Result<(), DataError> {
    let (mut file, _) = open_file(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|source| DataError::io("read", path, source))?;
    if bytes.is_empty() || bytes.len() % RECORD != 0 {
        let found = format!("{} bytes", bytes.len());
        let expected = format!("a positive multiple of {RECORD}, the size of a record");
        return Err(DataError::malformed(path, "the file's size", found, expected, AGAIN));
    }
    images.reserve_exact(bytes.len() / RECORD * PIXELS);
    for (number, record) in bytes.chunks_exact(RECORD).enumerate() {
        if record[0] >= CLASSES {
            let place = format!("record {number}, byte {}", number * RECORD);
            return Err(DataError::malformed(path, place, format!("label {}", record[0]), "0 to 9", AGAIN));
        }
        labels.push(u32::from(record[0]));
        images.extend_from_slice(&record[1..]);
    }
    Ok(())
}
