//! The header that every message has: its kind and the version of its format.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::tensors::{NamedTensor, TensorFile, TensorFileError, tensor_bytes};
use crate::parameters::KindError;

/// The version of all messages that this fedsi writes and reads. Version 1 was fedsi 0.1's; version 2 had one network.
pub const VERSION: u32 = 3;

/// Why bytes are not the message that was expected. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// Not a tensor file, or not the tensors that were expected.
    #[error("not a fedsi message: {0}")]
    Tensors(#[from] TensorFileError),
    /// A message of another kind.
    #[error("a fedsi message of kind `{found}`, expected `{expected}`")]
    Kind {
        /// The kind that was expected.
        expected: &'static str,
        /// The kind it names.
        found: String,
    },
    /// A message of another version of the format.
    #[error("a fedsi message of version {found}, and this fedsi reads version {VERSION}")]
    Version {
        /// The version it names.
        found: u32,
    },
    /// A header that cannot be written or read.
    #[error("a message's header: {0}")]
    Header(#[from] serde_json::Error),
    /// Parameters that make no sense.
    #[error("a message's parameters: {0}")]
    Parameters(#[from] KindError),
    /// A posterior that does not fit the network.
    #[error("a message's posterior: {0}")]
    Posterior(#[from] fedsi_bayes::PosteriorError),
    /// Something is missing, or of the wrong length.
    #[error("malformed message: {0}")]
    Incomplete(&'static str),
}

/// The fields of every header.
#[derive(Debug, Serialize, Deserialize)]
struct Header<T> {
    message: String,
    version: u32,
    #[serde(flatten)]
    content: T,
}

/// Kind and version, which every version has.
#[derive(Debug, Deserialize)]
struct HeaderVersion {
    message: String,
    version: u32,
}

/// The header's text.
pub(super) fn text<T: Serialize>(kind: &str, content: &T) -> Result<String, WireError> {
    Ok(value(kind, content)?.to_string())
}

fn value<T: Serialize>(kind: &str, content: &T) -> Result<serde_json::Value, WireError> {
    Ok(serde_json::to_value(Header { message: kind.to_owned(), version: VERSION, content })?)
}

/// A message of this kind.
pub(crate) fn encode<T: Serialize>(
    kind: &str,
    content: &T,
    tensors: &[NamedTensor],
) -> Result<Vec<u8>, WireError> {
    Ok(tensor_bytes(tensors, Some(&value(kind, content)?))?)
}

/// Reads a message of this kind: what its header says, and its tensors.
pub(crate) fn decode<'a, T: DeserializeOwned>(
    kind: &'static str,
    bytes: &'a [u8],
) -> Result<(T, TensorFile<'a>), WireError> {
    let file = TensorFile::parse(bytes)?;
    let stamp: HeaderVersion = file.entry()?;
    if stamp.version != VERSION {
        return Err(WireError::Version { found: stamp.version });
    }
    if stamp.message != kind {
        return Err(WireError::Kind { expected: kind, found: stamp.message });
    }
    let header: Header<T> = file.entry()?;
    Ok((header.content, file))
}
