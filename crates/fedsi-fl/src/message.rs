//! What travels between server and clients, and how many bytes it takes.
//!
//! A message is a safetensors file in memory: any language can read it. The simulation counts the bytes of
//! messages without writing them; a deployment sends just these.

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Name and version of the format.
const FORMAT: &str = "fedsi-message-1";

/// From the server to a participant: the shared part at the start of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// The round it starts.
    pub round: u64,
    /// The shared part's values.
    pub shared: Vec<f32>,
}

/// From a participant to the server: the shared part after local work.
#[derive(Clone, Debug, PartialEq)]
pub struct Upload {
    /// The round it belongs to.
    pub round: u64,
    /// The sender.
    pub client: usize,
    /// Its training samples.
    pub samples: usize,
    /// Mean loss a sample over its last epoch.
    pub loss: Option<f64>,
    /// The shared part's values.
    pub shared: Vec<f32>,
}

/// What a message says besides its values.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    format: String,
    round: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a fedsi message: {0}")]
pub struct MessageError(String);

impl Download {
    fn envelope(&self) -> Envelope {
        Envelope { format: FORMAT.to_owned(), round: self.round, client: None, samples: None, loss: None }
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// None for a message of numbers; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        encode(&self.envelope(), &self.shared)
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(&self.envelope(), self.shared.len())
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let (envelope, shared) = decode(bytes)?;
        Ok(Self { round: envelope.round, shared })
    }
}

impl Upload {
    fn envelope(&self) -> Envelope {
        Envelope {
            format: FORMAT.to_owned(),
            round: self.round,
            client: Some(self.client),
            samples: Some(self.samples),
            loss: self.loss.filter(|loss| loss.is_finite()),
        }
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// None for a message of numbers; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        encode(&self.envelope(), &self.shared)
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(&self.envelope(), self.shared.len())
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such message, or that name no sender.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let (Envelope { round, client, samples, loss, .. }, shared) = decode(bytes)?;
        let missing = |what: &str| MessageError(format!("it does not say {what}"));
        let client = client.ok_or_else(|| missing("who sent it"))?;
        let samples = samples.ok_or_else(|| missing("how many samples stand behind it"))?;
        Ok(Self { round, client, samples, loss, shared })
    }
}

fn broken(error: impl std::fmt::Display) -> MessageError {
    MessageError(error.to_string())
}

fn encode(envelope: &Envelope, shared: &[f32]) -> Result<Vec<u8>, MessageError> {
    let data: Vec<u8> = shared.iter().flat_map(|value| value.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![shared.len()], &data).map_err(broken)?;
    let words = serde_json::to_string(envelope).map_err(broken)?;
    // One entry: the format's map has no order, and equal messages must be equal bytes.
    serialize([("shared", view)], Some([("fedsi".to_owned(), words)].into())).map_err(broken)
}

fn encoded_len(envelope: &Envelope, values: usize) -> usize {
    let words = serde_json::to_string(envelope).unwrap_or_default();
    let header = serde_json::json!({
        "__metadata__": { "fedsi": words },
        "shared": { "dtype": "F32", "shape": [values], "data_offsets": [0, 4 * values] },
    });
    8 + header.to_string().len().next_multiple_of(8) + 4 * values
}

fn decode(bytes: &[u8]) -> Result<(Envelope, Vec<f32>), MessageError> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let words = header.metadata().as_ref().and_then(|map| map.get("fedsi"));
    let words = words.ok_or_else(|| MessageError("it has no `fedsi` entry".to_owned()))?;
    let envelope: Envelope = serde_json::from_str(words).map_err(broken)?;
    if envelope.format != FORMAT {
        return Err(MessageError(format!("its format is `{}`, expected `{FORMAT}`", envelope.format)));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
    let shared = tensors.tensor("shared").map_err(broken)?;
    if shared.dtype() != Dtype::F32 || shared.shape().len() != 1 {
        return Err(MessageError("its values are no row of F32".to_owned()));
    }
    let values = shared.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    Ok((envelope, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn uploads_survive_the_journey_and_their_length_is_known(
            round in 0_u64..1_000_000, client in 0_usize..100_000, samples in 0_usize..10_000,
            loss in proptest::option::of(-1e9..1e9_f64),
            shared in proptest::collection::vec(any::<f32>().prop_filter("a number", |x| !x.is_nan()), 0..200),
        ) {
            let upload = Upload { round, client, samples, loss, shared };
            let bytes = upload.encode().unwrap();
            prop_assert_eq!(bytes.len(), upload.encoded_len());
            prop_assert_eq!(Upload::decode(&bytes).unwrap(), upload);
        }

        #[test]
        fn no_bytes_make_decoding_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Upload::decode(&bytes);
        }

        #[test]
        fn a_damaged_message_is_an_error_or_a_message(at in 0_usize..400, value: u8) {
            let upload = Upload { round: 3, client: 4, samples: 5, loss: Some(0.5), shared: vec![1.0; 30] };
            let mut bytes = upload.encode().unwrap();
            if let Some(byte) = bytes.get_mut(at) { *byte = value; }
            let _ = Upload::decode(&bytes);
        }
    }

    #[test]
    fn downloads_survive_the_journey() {
        let download = Download { round: 7, shared: vec![0.5, -1.0, f32::MIN_POSITIVE] };
        let bytes = download.encode().unwrap();
        assert_eq!((bytes.len(), Download::decode(&bytes)), (download.encoded_len(), Ok(download)));
    }

    #[test]
    fn a_download_is_no_upload() {
        let bytes = Download { round: 7, shared: vec![0.5] }.encode().unwrap();
        let error = Upload::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("does not say who sent it"), "{error}");
    }
}
