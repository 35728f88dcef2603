//! Arrays of numbers, as NPY and safetensors files hold them.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::scale::Range;

/// Most classes a label may count up to: more is a mistake in the file, not a task.
pub(crate) const MAX_CLASSES: usize = 1 << 16;

/// The numbers of an array, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    Bytes(Vec<u8>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

/// An array and where it comes from. The product of `shape` is the number of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) path: PathBuf,
    /// What it is called in messages: `array "inputs"`.
    pub(crate) place: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

impl Array {
    /// Rows: the first dimension.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Numbers in a row.
    pub(crate) fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// The numbers, all of them in the range.
    pub(crate) fn floats(self, range: Range) -> Result<Vec<f64>, DataError> {
        let width = self.width().max(1);
        let (path, place) = (self.path, self.place);
        let values = match self.numbers {
            Numbers::Bytes(bytes) => bytes.into_iter().map(f64::from).collect(),
            Numbers::Integers(integers) => integers.into_iter().map(|value| value as f64).collect(),
            Numbers::Floats(values) => values,
        };
        match values.iter().position(|&value| !range.holds(value)) {
            None => Ok(values),
            Some(at) => Err(DataError::malformed(
                &path,
                format!("{place}, row {}, number {}", at / width, at % width),
                format!("{:?}", values[at]),
                range.expected(),
                "fill or remove such rows",
            )),
        }
    }

    /// The numbers as classes counted from 0.
    pub(crate) fn classes(self) -> Result<Vec<u32>, DataError> {
        if self.width() != 1 {
            return Err(self.wrong("one number per row, the class", "use integers, not one-hot rows"));
        }
        let (path, place) = (self.path.as_path(), &self.place);
        let class = |row: usize, value: f64| {
            if value >= 0.0 && value < MAX_CLASSES as f64 && value.fract() == 0.0 {
                return Ok(value as u32);
            }
            let expected = format!("a class, a whole number from 0 to {}", MAX_CLASSES - 1);
            let advice = "number the classes from 0, or use a CSV for named classes";
            Err(DataError::malformed(
                path,
                format!("{place}, row {row}"),
                value.to_string(),
                expected,
                advice,
            ))
        };
        match &self.numbers {
            Numbers::Bytes(bytes) => Ok(bytes.iter().map(|&value| u32::from(value)).collect()),
            Numbers::Integers(values) => {
                values.iter().enumerate().map(|(row, &value)| class(row, value as f64)).collect()
            }
            Numbers::Floats(values) => {
                values.iter().enumerate().map(|(row, &value)| class(row, value)).collect()
            }
        }
    }

    /// The numbers as names of clients.
    pub(crate) fn names(self) -> Result<Vec<String>, DataError> {
        if self.width() != 1 {
            return Err(self.wrong("one number per row, the client", "use an array of integers"));
        }
        match &self.numbers {
            Numbers::Bytes(bytes) => Ok(bytes.iter().map(ToString::to_string).collect()),
            Numbers::Integers(values) => Ok(values.iter().map(ToString::to_string).collect()),
            Numbers::Floats(_) => Err(self.wrong("integers, the clients", "cast the array to int64")),
        }
    }

    fn wrong(&self, expected: &str, advice: &'static str) -> DataError {
        let kind = match self.numbers {
            Numbers::Bytes(_) => "bytes",
            Numbers::Integers(_) => "integers",
            Numbers::Floats(_) => "floats",
        };
        let found = format!("{kind} of shape {:?}", self.shape);
        DataError::malformed(&self.path, self.place.clone(), found, expected, advice)
    }
}

/// Refuses an array with another number of rows than the inputs have.
pub(crate) fn same_rows(inputs: &Array, other: &Array) -> Result<(), DataError> {
    if inputs.rows() == other.rows() {
        return Ok(());
    }
    let expected = format!("{}, as many as the inputs", inputs.rows());
    let advice = "take both arrays from the same samples";
    Err(DataError::malformed(
        &other.path,
        other.place.clone(),
        format!("{} rows", other.rows()),
        expected,
        advice,
    ))
}

/// The product of dimensions where it can be counted.
pub(crate) fn checked_product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

/// A setting such as `data.files.target` that is needed and empty.
pub(crate) fn required(key: &'static str, value: &str, expected: &str) -> Result<(), DataError> {
    if value.is_empty() { Err(DataError::setting(key, "\"\"", expected)) } else { Ok(()) }
}

/// The extension of a path in lower case.
pub(crate) fn extension(path: &Path) -> String {
    path.extension().map(|text| text.to_string_lossy().to_lowercase()).unwrap_or_default()
}
