//! Safetensors, a format of named arrays.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::arrays::{Array, Numbers};
use crate::error::{DataError, one_line, quoted};

/// Finds the first array that has one of these names.
pub(crate) fn find_any(path: &Path, bytes: &[u8], names: &[&str]) -> Result<Array, DataError> {
    let file = parse(path, bytes)?;
    if let Some(name) = names.iter().find(|name| file.tensor(name).is_ok()) {
        return find(path, bytes, name);
    }
    let mut held = file.names();
    held.sort_unstable();
    let found = format!("only {}", quoted(&held.join(", ")));
    let place = format!("array {}", quoted(names.first().copied().unwrap_or_default()));
    let advice = "save the array under this name";
    Err(DataError::malformed(path, place, found, "an array of this name", advice))
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, DataError> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let advice = "write it with safetensors' save_file";
        DataError::malformed(path, "the header", one_line(&error.to_string()), "a safetensors file", advice)
    })
}

/// Finds the array of this name in a file that was read whole.
pub(crate) fn find(path: &Path, bytes: &[u8], name: &str) -> Result<Array, DataError> {
    let file = parse(path, bytes)?;
    let place = format!("array {}", quoted(name));
    let Ok(view) = file.tensor(name) else {
        let mut names = file.names();
        names.sort_unstable();
        let found = format!("only {}", quoted(&names.join(", ")));
        let advice = "set data.files.inputs, data.files.target and data.files.client to names in the file";
        return Err(DataError::malformed(path, place, found, "an array of this name", advice));
    };
    let data = view.data();
    let numbers = match view.dtype() {
        Dtype::U8 => Numbers::Bytes(data.to_vec()),
        Dtype::BOOL => Numbers::Bytes(data.iter().map(|&byte| u8::from(byte != 0)).collect()),
        Dtype::I8 => Numbers::Integers(numbers(data, |b: [u8; 1]| i64::from(i8::from_le_bytes(b)))),
        Dtype::I16 => Numbers::Integers(numbers(data, |b| i64::from(i16::from_le_bytes(b)))),
        Dtype::U16 => Numbers::Integers(numbers(data, |b| i64::from(u16::from_le_bytes(b)))),
        Dtype::I32 => Numbers::Integers(numbers(data, |b| i64::from(i32::from_le_bytes(b)))),
        Dtype::U32 => Numbers::Integers(numbers(data, |b| i64::from(u32::from_le_bytes(b)))),
        Dtype::I64 => Numbers::Integers(numbers(data, i64::from_le_bytes)),
        Dtype::F32 => Numbers::Floats(numbers(data, |b| f64::from(f32::from_le_bytes(b)))),
        Dtype::F64 => Numbers::Floats(numbers(data, f64::from_le_bytes)),
        other => {
            let expected = "U8, an integer of up to 64 bits, F32 or F64";
            return Err(DataError::malformed(
                path,
                place,
                format!("the type {other:?}"),
                expected,
                "cast the array",
            ));
        }
    };
    Ok(Array { path: path.to_path_buf(), place, shape: view.shape().to_vec(), numbers })
}

fn numbers<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(|&bytes| read(bytes)).collect()
}
