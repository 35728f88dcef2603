//! Tensors of a safetensors file in f64.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::output::BadInput;

/// A safetensors file's bytes.
pub(super) struct Tensors {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Tensors {
    pub(super) fn read(path: PathBuf) -> Result<Self, BadInput> {
        let bytes = std::fs::read(&path)
            .map_err(|error| BadInput(format!("{}: cannot be read: {error}", path.display())))?;
        Ok(Self { path, bytes })
    }

    pub(super) fn open(&self) -> Result<Opened<'_>, BadInput> {
        let tensors = SafeTensors::deserialize(&self.bytes)
            .map_err(|error| BadInput(format!("{}: no safetensors file: {error}", self.path.display())))?;
        Ok(Opened { path: &self.path, tensors })
    }
}

/// Its tensors, each checked when it is read.
pub(super) struct Opened<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl Opened<'_> {
    pub(super) fn bad(&self, reason: &str) -> BadInput {
        BadInput(format!("{}: {reason}", self.path.display()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    fn find(&self, name: &str) -> Result<TensorView<'_>, BadInput> {
        let names = || self.tensors.names().join(", ");
        self.tensors.tensor(name).map_err(|_| self.bad(&format!("has no `{name}`; it holds {}", names())))
    }

    /// All values in f64, every one a finite number.
    pub(super) fn values(&self, name: &str) -> Result<(Vec<f64>, Vec<usize>), BadInput> {
        let tensor = self.find(name)?;
        let bytes = tensor.data();
        let values: Vec<f64> = match tensor.dtype() {
            Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
            Dtype::F32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect()
            }
            other => return Err(self.bad(&format!("`{name}` is {other:?}, expected F64 or F32"))),
        };
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(self.bad(&format!("value {index} of `{name}` is {}", values[index])));
        }
        Ok((values, tensor.shape().to_vec()))
    }

    pub(super) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, BadInput> {
        let (values, found) = self.values(name)?;
        if found != shape {
            return Err(self.bad(&format!("`{name}` has the shape {found:?}, expected {shape:?}")));
        }
        Ok(values)
    }

    /// Samples in rows, however their values are shaped.
    pub(super) fn rows(&self, name: &str, width: usize) -> Result<(Vec<f64>, usize), BadInput> {
        let (values, shape) = self.values(name)?;
        let rows = shape.first().copied().unwrap_or(0);
        if values.len() != rows * width {
            return Err(
                self.bad(&format!("`{name}` has the shape {shape:?}, expected rows of {width} values"))
            );
        }
        Ok((values, rows))
    }

    pub(super) fn targets(&self, name: &str, rows: usize, width: usize) -> Result<Vec<f64>, BadInput> {
        let (values, shape) = self.values(name)?;
        if values.len() != rows * width || shape.first() != Some(&rows) {
            let expected = format!("{rows} rows of {width} values, as many as the inputs");
            return Err(self.bad(&format!("`{name}` has the shape {shape:?}, expected {expected}")));
        }
        Ok(values)
    }

    pub(super) fn labels(&self, name: &str, rows: usize, classes: usize) -> Result<Vec<u32>, BadInput> {
        let tensor = self.find(name)?;
        let bytes = tensor.data();
        let labels: Vec<i64> = match tensor.dtype() {
            Dtype::I64 => bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
            Dtype::I32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).collect()
            }
            Dtype::U8 => bytes.iter().map(|&b| i64::from(b)).collect(),
            other => return Err(self.bad(&format!("`{name}` is {other:?}, expected I64, I32 or U8"))),
        };
        if labels.len() != rows {
            return Err(self.bad(&format!("`{name}` has {} labels, expected {rows}", labels.len())));
        }
        let label = |(row, &label): (usize, &i64)| match u32::try_from(label) {
            Ok(class) if (class as usize) < classes => Ok(class),
            _ => Err(self.bad(&format!("label {label} of row {row} is not in 0..{classes}"))),
        };
        labels.iter().enumerate().map(label).collect()
    }
}
