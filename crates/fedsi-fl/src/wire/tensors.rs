//! Tensors as bytes: safetensors with one metadata entry, `fedsi`, that holds JSON. The only place that converts them;
//! what the tensors and the entry mean is known by the modules that use it. Messages and files alike are made of this.

use std::sync::Arc;

use fedsi_data::hexadecimal;
use fedsi_nn::Layout;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The name of the metadata entry.
const ENTRY: &str = "fedsi";

/// Why bytes are not the tensor file that was expected. Each message is one line and completes "FILE: ".
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TensorFileError {
    /// Not a safetensors file, or one that is cut short or damaged.
    #[error(transparent)]
    Format(#[from] SafeTensorError),
    /// It has no metadata entry of fedsi's.
    #[error("it has no `fedsi` entry")]
    NoEntry,
    /// The metadata entry does not say what is needed.
    #[error("its `fedsi` entry: {0}")]
    Entry(serde_json::Error),
    /// The metadata entry names another format.
    #[error("its format is `{found}`, expected `{expected}`")]
    OtherFormat {
        /// The format that it names.
        found: String,
        /// The one that was expected.
        expected: &'static str,
    },
    /// A tensor is missing.
    #[error("it has no tensor `{name}`")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// A tensor holds numbers of another kind.
    #[error("its `{name}` is {found:?}, expected {expected:?}")]
    Kind {
        /// The tensor.
        name: String,
        /// What it holds.
        found: Dtype,
        /// What was expected.
        expected: Dtype,
    },
    /// A tensor has another shape.
    #[error("its `{name}` has the shape {found:?}, expected {expected}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What was expected.
        expected: String,
    },
    /// An index, label or client below 0.
    #[error("its `{name}` has a number below 0")]
    Negative {
        /// The tensor.
        name: String,
    },
    /// It is not as it was written.
    #[error("its contents do not match its checksum: the file was damaged or changed")]
    Checksum,
    /// It was written with a checksum, and has none.
    #[error("it has no checksum: the file was changed")]
    NoChecksum,
    /// A tensor's values make no sense.
    #[error("its `{name}` {reason}")]
    Invalid {
        /// The tensor.
        name: String,
        /// What is wrong with them.
        reason: &'static str,
    },
}

impl TensorFileError {
    /// A tensor whose values make no sense.
    pub fn invalid(name: &str, reason: &'static str) -> Self {
        Self::Invalid { name: name.to_owned(), reason }
    }
}

/// A tensor file's bytes, parsed: tensors are converted when asked for.
#[derive(Debug)]
pub struct TensorFile<'a> {
    tensors: Arc<SafeTensors<'a>>,
    entry: Option<String>,
    /// What the names of its tensors begin with, and is left out of them.
    prefix: String,
    /// What takes the place of `posterior.` in front of names, where that is not the prefix and `posterior.`.
    posterior: Option<String>,
}

impl<'a> TensorFile<'a> {
    /// Reads the header. Nothing is allocated that the bytes do not back.
    ///
    /// # Errors
    /// Bytes that are not safetensors.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TensorFileError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let entry = header.metadata().as_ref().and_then(|map| map.get(ENTRY)).cloned();
        let tensors = Arc::new(SafeTensors::deserialize(bytes)?);
        Ok(Self { tensors, entry, prefix: String::new(), posterior: None })
    }

    /// The tensors whose names begin with `prefix`, without it.
    #[must_use]
    pub fn within(&self, prefix: &str) -> Self {
        let prefix = format!("{}{prefix}", self.prefix);
        Self { tensors: Arc::clone(&self.tensors), entry: self.entry.clone(), prefix, posterior: None }
    }

    /// One network of several, as [`NamedTensor::of_mode`] names its tensors.
    #[must_use]
    pub fn mode(&self, mode: usize) -> Self {
        let (tensors, entry) = (Arc::clone(&self.tensors), self.entry.clone());
        let [prefix, posterior] = mode_places(mode);
        Self { tensors, entry, prefix, posterior: Some(posterior) }
    }

    /// What follows `start` in the names of tensors that begin with it.
    pub(crate) fn after(&self, start: &str) -> Vec<&str> {
        let start = self.full_name(start);
        self.tensors.names().into_iter().filter_map(|name| name.strip_prefix(start.as_str())).collect()
    }

    fn full_name(&self, name: &str) -> String {
        match (&self.posterior, name.strip_prefix(POSTERIOR)) {
            (Some(posterior), Some(rest)) => format!("{posterior}{rest}"),
            _ => format!("{}{name}", self.prefix),
        }
    }

    /// The metadata entry.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn entry<T: DeserializeOwned>(&self) -> Result<T, TensorFileError> {
        let entry = self.entry.as_deref().ok_or(TensorFileError::NoEntry)?;
        serde_json::from_str(entry).map_err(TensorFileError::Entry)
    }

    /// Compares the contents with the checksum that [`checked_tensor_bytes`] wrote. Costs a pass over them.
    ///
    /// # Errors
    /// Contents that were changed, or no checksum.
    pub fn verify(&self) -> Result<(), TensorFileError> {
        let entry = self.entry.as_deref().ok_or(TensorFileError::NoEntry)?;
        let (content, found) = split_checksum(entry).ok_or(TensorFileError::NoChecksum)?;
        let mut tensors: Vec<(&str, TensorView<'a>)> = Vec::new();
        for name in self.tensors.names() {
            let missing = |_| TensorFileError::Missing { name: name.to_owned() };
            tensors.push((name, self.tensors.tensor(name).map_err(missing)?));
        }
        let tensors = tensors.iter().map(|(name, view)| (*name, view.dtype(), view.shape(), view.data()));
        if checksum(content, tensors.collect()) == found { Ok(()) } else { Err(TensorFileError::Checksum) }
    }

    /// The names of all tensors, in no particular order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names = self.tensors.names().into_iter();
        names.filter_map(|name| name.strip_prefix(self.prefix.as_str())).collect()
    }

    /// Whether there is a tensor of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tensor(name).is_ok()
    }

    /// A tensor's shape.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, TensorFileError> {
        Ok(self.tensor(name)?.shape().to_vec())
    }

    /// Rows and columns of a matrix that has at least one column.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn matrix(&self, name: &str) -> Result<[usize; 2], TensorFileError> {
        let found = self.shape(name)?;
        match *found.as_slice() {
            [rows, columns] if columns > 0 => Ok([rows, columns]),
            _ => Err(TensorFileError::Shape {
                name: name.to_owned(),
                found,
                expected: "rows and columns".to_owned(),
            }),
        }
    }

    /// The values of an F32 tensor.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn f32(&self, name: &str) -> Result<Vec<f32>, TensorFileError> {
        let values = self.data(name, Dtype::F32)?.as_chunks::<4>().0.iter();
        Ok(values.map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    /// The values of an F64 tensor.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn f64(&self, name: &str) -> Result<Vec<f64>, TensorFileError> {
        let values = self.data(name, Dtype::F64)?.as_chunks::<8>().0.iter();
        Ok(values.map(|&bytes| f64::from_le_bytes(bytes)).collect())
    }

    /// The values of an I64 tensor, none of them below 0.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn indices<T: TryFrom<i64>>(&self, name: &str) -> Result<Vec<T>, TensorFileError> {
        let values = self.data(name, Dtype::I64)?.as_chunks::<8>().0.iter();
        let index = |&bytes| {
            let negative = |_| TensorFileError::Negative { name: name.to_owned() };
            T::try_from(i64::from_le_bytes(bytes)).map_err(negative)
        };
        values.map(index).collect()
    }

    /// The values of a U32 tensor.
    ///
    /// # Errors
    /// A tensor that is missing or holds something else.
    pub fn u32(&self, name: &str) -> Result<Vec<u32>, TensorFileError> {
        let values = self.data(name, Dtype::U32)?.as_chunks::<4>().0.iter();
        Ok(values.map(|&bytes| u32::from_le_bytes(bytes)).collect())
    }

    /// The values of a U8 tensor.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn u8(&self, name: &str) -> Result<&'a [u8], TensorFileError> {
        self.data(name, Dtype::U8)
    }

    /// A network's parameters, under PyTorch's names.
    ///
    /// # Errors
    /// Something that is missing or of another kind.
    pub fn parameters(&self, layout: &Layout) -> Result<Vec<f32>, TensorFileError> {
        let mut parameters = Vec::with_capacity(layout.len());
        for tensor in layout.tensors() {
            let found = self.shape(&tensor.name)?;
            if found != tensor.shape {
                let (name, expected) = (tensor.name.clone(), format!("{:?}", tensor.shape));
                return Err(TensorFileError::Shape { name, found, expected });
            }
            parameters.extend(self.f32(&tensor.name)?);
        }
        Ok(parameters)
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'a>, TensorFileError> {
        let name = self.full_name(name);
        self.tensors.tensor(&name).map_err(|_| TensorFileError::Missing { name })
    }

    fn data(&self, name: &str, expected: Dtype) -> Result<&'a [u8], TensorFileError> {
        let tensor = self.tensor(name)?;
        if tensor.dtype() == expected {
            return Ok(tensor.data());
        }
        Err(TensorFileError::Kind { name: name.to_owned(), found: tensor.dtype(), expected })
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub struct NamedTensor {
    name: String,
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl NamedTensor {
    /// Single precision, row-major.
    #[must_use]
    pub fn f32(name: &str, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name: name.to_owned(), kind: Dtype::F32, shape, bytes }
    }

    /// Double precision, row-major.
    #[must_use]
    pub fn f64(name: &str, shape: Vec<usize>, values: &[f64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name: name.to_owned(), kind: Dtype::F64, shape, bytes }
    }

    /// A vector of indices.
    #[must_use]
    pub fn u32(name: &str, values: &[u32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name: name.to_owned(), kind: Dtype::U32, shape: vec![values.len()], bytes }
    }

    /// A vector of whole numbers.
    #[must_use]
    pub fn i64(name: &str, values: impl Iterator<Item = i64>) -> Self {
        let bytes: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
        Self { name: name.to_owned(), kind: Dtype::I64, shape: vec![bytes.len() / 8], bytes }
    }

    /// Bytes, row-major.
    #[must_use]
    pub fn u8(name: &str, shape: Vec<usize>, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), kind: Dtype::U8, shape, bytes }
    }

    /// The same under a longer name.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.name.insert_str(0, prefix);
        self
    }

    /// The same under its name as one network's of several: a weight `0.bias` is `modes.K.0.bias`, and
    /// `posterior.factor` is `posterior.modes.K.factor`.
    #[must_use]
    pub fn of_mode(mut self, mode: usize) -> Self {
        let [weights, posterior] = mode_places(mode);
        self.name = match self.name.strip_prefix(POSTERIOR) {
            Some(rest) => format!("{posterior}{rest}"),
            None => format!("{weights}{}", self.name),
        };
        self
    }

    /// The same values in another shape.
    #[must_use]
    pub fn shaped(self, shape: Vec<usize>) -> Self {
        Self { shape, ..self }
    }
}

/// What the names of a mode's tensors begin with in a file of several: nothing for the first, so that a single network's are
/// under PyTorch's names.
#[must_use]
pub fn mode_prefix(mode: usize) -> String {
    if mode == 0 { String::new() } else { format!("mode.{mode}.") }
}

/// What names begin with of tensors that are no weights.
const POSTERIOR: &str = "posterior.";

/// What the names of one network's weights begin with in a model file of several, and of all else that is known of it.
fn mode_places(mode: usize) -> [String; 2] {
    [format!("modes.{mode}."), format!("{POSTERIOR}modes.{mode}.")]
}

/// A network's parameters, under PyTorch's names.
#[must_use]
pub fn parameter_tensors(layout: &Layout, parameters: &[f32]) -> Vec<NamedTensor> {
    let tensors = layout.tensors().iter();
    tensors.map(|t| NamedTensor::f32(&t.name, t.shape.clone(), &parameters[t.range.clone()])).collect()
}

/// Tensors as the bytes of a file. `entry` becomes its only metadata, so that equal contents give equal bytes.
///
/// # Errors
/// A tensor whose values are not as many as its shape says.
pub fn tensor_bytes(
    tensors: &[NamedTensor],
    entry: Option<&serde_json::Value>,
) -> Result<Vec<u8>, TensorFileError> {
    let mut views = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let view = TensorView::new(tensor.kind, tensor.shape.clone(), &tensor.bytes)?;
        views.push((tensor.name.as_str(), view));
    }
    let metadata = entry.map(|entry| [(ENTRY.to_owned(), entry.to_string())].into());
    Ok(safetensors::serialize(views, metadata)?)
}

/// The same with a checksum of everything in the entry: [`TensorFile::verify`] knows a file that was changed.
///
/// # Errors
/// As [`tensor_bytes`]; an entry that is not a JSON object with something in it.
pub fn checked_tensor_bytes(
    tensors: &[NamedTensor],
    entry: &serde_json::Value,
) -> Result<Vec<u8>, TensorFileError> {
    let content = entry.to_string();
    let Some(open) = content.strip_suffix('}').filter(|open| open.len() > 1) else {
        return Err(TensorFileError::NoEntry);
    };
    let parts = tensors.iter().map(|t| (t.name.as_str(), t.kind, t.shape.as_slice(), t.bytes.as_slice()));
    let sum = checksum(&content, parts.collect());
    let mut views = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let view = TensorView::new(tensor.kind, tensor.shape.clone(), &tensor.bytes)?;
        views.push((tensor.name.as_str(), view));
    }
    let metadata = [(ENTRY.to_owned(), format!("{open}{CHECKSUM}{sum}\"}}"))].into();
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// The last key of an entry with a checksum.
const CHECKSUM: &str = ",\"sha256\":\"";

/// An entry without its checksum, and the checksum.
fn split_checksum(entry: &str) -> Option<(String, &str)> {
    let (open, sum) = entry.strip_suffix("\"}")?.rsplit_once(CHECKSUM)?;
    Some((format!("{open}}}"), sum))
}

/// SHA-256 of an entry and of tensors with their names, kinds and shapes, as hexadecimal digits.
fn checksum(entry: impl AsRef<str>, mut tensors: Vec<(&str, Dtype, &[usize], &[u8])>) -> String {
    tensors.sort_by_key(|(name, ..)| *name);
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        // With their lengths: no two contents give the same bytes.
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(entry.as_ref().as_bytes());
    for (name, kind, shape, data) in tensors {
        add(name.as_bytes());
        add(format!("{kind:?} {shape:?}").as_bytes());
        add(data);
    }
    hexadecimal(&hash.finalize())
}

/// How many bytes [`tensor_bytes`] would give for tensors of these names, kinds and lengths under this entry, without
/// writing them. In the order the format stores them: larger numbers first, floats before integers, then by name.
pub(super) fn encoded_len(entry: &str, tensors: &[(&str, Dtype, usize)]) -> usize {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), serde_json::json!({ ENTRY: entry }));
    let mut end = 0;
    for &(name, kind, length) in tensors {
        let offsets = [end, end + length * kind.bitsize() / 8];
        end = offsets[1];
        let about = serde_json::json!({ "dtype": kind, "shape": [length], "data_offsets": offsets });
        header.insert(name.to_owned(), about);
    }
    8 + serde_json::Value::Object(header).to_string().len().next_multiple_of(8) + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_checked_file_is_noticed() {
        let tensors = [NamedTensor::f32("b", vec![2, 1], &[1.0, 2.0]), NamedTensor::u32("a", &[7])];
        let entry = serde_json::json!({ "client": 3, "noise": 0.1 });
        let bytes = checked_tensor_bytes(&tensors, &entry).unwrap();
        let verified = |bytes: &[u8]| TensorFile::parse(bytes).and_then(|file| file.verify());
        assert!(verified(&bytes).is_ok());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                // A blank in the header that pads it says nothing; JSON may begin and end with it.
                let same = TensorFile::parse(&changed).is_ok_and(|file| {
                    file.verify().is_ok()
                        && file.f32("b").is_ok_and(|b| b == [1.0, 2.0])
                        && file.u32("a").is_ok_and(|a| a == [7])
                });
                assert!(same || verified(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
        let plain = tensor_bytes(&tensors, Some(&entry)).unwrap();
        assert!(matches!(verified(&plain), Err(TensorFileError::NoChecksum)));
    }
}
