//! Files that are whole or not there.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use fedsi_nn::Layout;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::{NamedTempFile, PersistError};

use crate::RunError;
use crate::predict::Predictions;

/// Writes a file under a temporary name, syncs it and renames it: after a crash there is the old file, the new
/// one, or none, and never half a file.
///
/// # Errors
/// What the system says, with the path.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    write(path, bytes, |file| file.persist(path))
}

/// Like [`write_whole`], but fails where the file exists: of two processes one gets it.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    write(path, bytes, |file| file.persist_noclobber(path))
}

fn write(
    path: &Path,
    bytes: &[u8],
    rename: impl FnOnce(NamedTempFile) -> Result<File, PersistError>,
) -> Result<(), RunError> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let write = || {
        let mut file = temporary().tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        rename(file).map_err(|error| error.error)?;
        // Elsewhere a folder cannot be opened, and a rename needs no such help.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    };
    write().map_err(RunError::write(path))
}

/// A temporary file that, once renamed, is as readable as any other file: the user's umask decides.
fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fedsi-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Reads `predictions.safetensors`.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_predictions(bytes: &[u8]) -> Result<Predictions, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let find = |name: &str, kind: Dtype| find(&tensors, name, kind);
    let doubles = |name: &str| doubles(&tensors, name);
    let columns = |name: &str, kind: Dtype| match find(name, kind)?.shape() {
        [_, columns] if *columns > 0 => Ok(*columns),
        other => Err(format!("`{name}` has the shape {other:?}, expected two sides")),
    };
    if tensors.tensor("probabilities").is_err() {
        return Ok(Predictions::Values {
            outputs: columns("mean", Dtype::F64)?,
            mean: doubles("mean")?,
            variance: doubles("variance")?,
            targets: doubles("targets")?,
        });
    }
    let probabilities = find("probabilities", Dtype::F32)?.data().as_chunks::<4>().0;
    let labels = find("labels", Dtype::I64)?.data().as_chunks::<8>().0;
    let label = |&bytes| u32::try_from(i64::from_le_bytes(bytes)).map_err(|_| "a label below 0".to_owned());
    Ok(Predictions::Classes {
        classes: columns("probabilities", Dtype::F32)?,
        probabilities: probabilities.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        labels: labels.iter().map(label).collect::<Result<_, _>>()?,
    })
}

/// Whose each row of `predictions.safetensors` is.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_prediction_clients(bytes: &[u8]) -> Result<Vec<usize>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let client =
        |&bytes| usize::try_from(i64::from_le_bytes(bytes)).map_err(|_| "a client below 0".to_owned());
    find(&tensors, "client", Dtype::I64)?.data().as_chunks::<8>().0.iter().map(client).collect()
}

/// The tensor of this name, if it is of this kind.
pub(crate) fn find<'a>(tensors: &SafeTensors<'a>, name: &str, kind: Dtype) -> Result<TensorView<'a>, String> {
    match tensors.tensor(name) {
        Ok(found) if found.dtype() == kind => Ok(found),
        Ok(found) => Err(format!("`{name}` is {:?}, expected {kind:?}", found.dtype())),
        Err(error) => Err(format!("`{name}`: {error}")),
    }
}

/// The values of an F64 tensor.
pub(crate) fn doubles(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f64>, String> {
    let found = find(tensors, name, Dtype::F64)?;
    Ok(found.data().as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect())
}

/// The values of an F32 tensor.
pub(crate) fn floats(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, String> {
    let found = find(tensors, name, Dtype::F32)?;
    Ok(found.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

/// A tensor on its way to a file.
#[derive(Clone, Debug)]
pub struct Values {
    name: String,
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Values {
    pub(crate) fn f32(name: &str, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name: name.to_owned(), kind: Dtype::F32, shape, bytes }
    }

    /// Double precision, row-major.
    #[must_use]
    pub fn f64(name: &str, shape: Vec<usize>, values: &[f64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name: name.to_owned(), kind: Dtype::F64, shape, bytes }
    }

    /// A row of whole numbers.
    #[must_use]
    pub fn i64(name: &str, values: impl Iterator<Item = i64>) -> Self {
        let bytes: Vec<u8> = values.flat_map(i64::to_le_bytes).collect();
        Self { name: name.to_owned(), kind: Dtype::I64, shape: vec![bytes.len() / 8], bytes }
    }

    /// Bytes, row-major.
    pub(crate) fn u8(name: &str, shape: Vec<usize>, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), kind: Dtype::U8, shape, bytes }
    }

    /// The same values in another shape.
    pub(crate) fn shaped(self, shape: Vec<usize>) -> Self {
        Self { shape, ..self }
    }
}

/// Tensors as a safetensors file. `about` is kept as its only metadata entry, so that equal contents give equal
/// bytes.
///
/// # Errors
/// What the system says, with the path.
pub fn write_tensors(
    path: &Path,
    tensors: &[Values],
    about: Option<&serde_json::Value>,
) -> Result<(), RunError> {
    let invalid = |error: safetensors::SafeTensorError| {
        RunError::write(path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))
    };
    write_whole(path, &tensor_bytes(tensors, about).map_err(invalid)?)
}

/// The bytes of such a file.
pub(crate) fn tensor_bytes(
    tensors: &[Values],
    about: Option<&serde_json::Value>,
) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let mut views = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let view = TensorView::new(tensor.kind, tensor.shape.clone(), &tensor.bytes)?;
        views.push((tensor.name.as_str(), view));
    }
    let metadata = about.map(|about| [("fedsi".to_owned(), about.to_string())].into());
    safetensors::serialize(views, metadata)
}

/// A network's parameters under PyTorch's names.
pub(crate) fn parameter_tensors(layout: &Layout, parameters: &[f32]) -> Vec<Values> {
    let tensors = layout.tensors().iter();
    tensors.map(|t| Values::f32(&t.name, t.shape.clone(), &parameters[t.range.clone()])).collect()
}

/// `predictions.safetensors`: `client` says whose each row is.
pub(crate) fn prediction_tensors(predictions: &Predictions, clients: &[usize]) -> Vec<Values> {
    let mut tensors = match predictions {
        Predictions::Classes { classes, probabilities, labels } => vec![
            Values::f32("probabilities", vec![labels.len(), *classes], probabilities),
            Values::i64("labels", labels.iter().map(|&label| i64::from(label))),
        ],
        Predictions::Values { outputs, mean, variance, targets } => {
            let shape = vec![targets.len() / outputs, *outputs];
            vec![
                Values::f64("mean", shape.clone(), mean),
                Values::f64("variance", shape.clone(), variance),
                Values::f64("targets", shape, targets),
            ]
        }
    };
    tensors.push(Values::i64("client", clients.iter().map(|&client| client as i64)));
    tensors
}
