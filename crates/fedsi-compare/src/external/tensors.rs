//! Safetensors: fedsi's own `predictions.safetensors`, and files of the same arrays.

use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::arrays::{Array, Arrays, WANTED, predictions};
use super::{ExternalError, ExternalPredictions};

/// Whether bytes begin as a safetensors file does: the length of a header that fits, and the header's brace.
pub(super) fn is_tensor_file(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let fits = usize::try_from(u64::from_le_bytes(*length)).is_ok_and(|length| length <= rest.len());
    fits && rest.first() == Some(&b'{')
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<ExternalPredictions, ExternalError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| ExternalError::new(path, format!("is no safetensors file: {error}")))?;
    let mut arrays = Arrays::new();
    for name in WANTED {
        if let Ok(tensor) = file.tensor(name) {
            let values = numbers(&tensor)
                .map_err(|reason| ExternalError::new(path, format!("`{name}` is {reason}")))?;
            arrays.insert(name.to_owned(), Array { shape: tensor.shape().to_vec(), values });
        }
    }
    let mut held: Vec<String> = file.names().into_iter().map(str::to_owned).collect();
    held.sort_unstable();
    predictions(path, arrays, &held)
}

/// A tensor's values in f64.
fn numbers(tensor: &TensorView<'_>) -> Result<Vec<f64>, String> {
    let bytes = tensor.data();
    Ok(match tensor.dtype() {
        Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|&eight| f64::from_le_bytes(eight)).collect(),
        Dtype::F32 => {
            bytes.as_chunks::<4>().0.iter().map(|&four| f64::from(f32::from_le_bytes(four))).collect()
        }
        Dtype::I64 => {
            bytes.as_chunks::<8>().0.iter().map(|&eight| i64::from_le_bytes(eight) as f64).collect()
        }
        Dtype::I32 => {
            bytes.as_chunks::<4>().0.iter().map(|&four| f64::from(i32::from_le_bytes(four))).collect()
        }
        Dtype::U8 => bytes.iter().map(|&byte| f64::from(byte)).collect(),
        other => return Err(format!("of type {other:?}, expected F32, F64, I64, I32 or U8")),
    })
}
