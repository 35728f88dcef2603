//! What travels between server and clients, and how many bytes it takes.
//!
//! A message is a safetensors file in memory: any language can read it. The simulation counts the bytes of
//! messages without writing them; a deployment sends just these.
//!
//! | tensor | down | up |
//! |---|---|---|
//! | `shared` (F32) | the shared part's values | the same after local work |
//! | `variance` (F32) | one a value, where the server holds a Gaussian | one a value, or one a selected parameter |
//! | `selected` (U32) | - | which parameters those are, ascending; absent where it is all of them |

use std::borrow::Cow;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::aggregate::{Shared, Variances};

/// Name and version of the format.
const FORMAT: &str = "fedsi-message-1";

/// From the server to a participant: the shared part at the start of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Download<'a> {
    /// The round it starts.
    pub round: u64,
    /// The shared part: borrowed from the server, owned once received.
    pub shared: Cow<'a, Shared>,
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
    /// What it knows of their spread, where the server holds a Gaussian.
    pub spread: Option<Variances>,
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

/// A row of four-byte values on its way.
#[derive(Clone, Copy)]
enum Row<'a> {
    Floats(&'a str, &'a [f32]),
    Indices(&'a str, &'a [u32]),
}

impl Row<'_> {
    const fn about(&self) -> (&str, Dtype, usize) {
        match self {
            Self::Floats(name, values) => (name, Dtype::F32, values.len()),
            Self::Indices(name, values) => (name, Dtype::U32, values.len()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Floats(_, values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Indices(_, values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a fedsi message: {0}")]
pub struct MessageError(String);

impl Download<'_> {
    fn envelope(&self) -> Envelope {
        Envelope { format: FORMAT.to_owned(), round: self.round, client: None, samples: None, loss: None }
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let variance = self.shared.variance.iter().map(|variance| Row::Floats("variance", variance));
        std::iter::once(Row::Floats("shared", &self.shared.values)).chain(variance).collect()
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// None for a message of numbers; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        encode(&self.envelope(), &self.rows())
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(&self.envelope(), &self.rows())
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such message.
    pub fn decode(bytes: &[u8]) -> Result<Download<'static>, MessageError> {
        let (envelope, tensors) = decode(bytes)?;
        let values = floats(&tensors, "shared")?;
        let variance = if has(&tensors, "variance") { Some(floats(&tensors, "variance")?) } else { None };
        Ok(Download { round: envelope.round, shared: Cow::Owned(Shared { values, variance }) })
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

    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = vec![Row::Floats("shared", &self.shared)];
        if let Some(spread) = &self.spread {
            rows.push(Row::Floats("variance", &spread.values));
            rows.extend(spread.selected.as_deref().map(|selected| Row::Indices("selected", selected)));
        }
        rows
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// None for a message of numbers; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        encode(&self.envelope(), &self.rows())
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(&self.envelope(), &self.rows())
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such message, or that name no sender.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let (Envelope { round, client, samples, loss, .. }, tensors) = decode(bytes)?;
        let missing = |what: &str| MessageError(format!("it does not say {what}"));
        let client = client.ok_or_else(|| missing("who sent it"))?;
        let samples = samples.ok_or_else(|| missing("how many samples stand behind it"))?;
        let shared = floats(&tensors, "shared")?;
        let spread = if has(&tensors, "selected") || has(&tensors, "variance") {
            let selected = if has(&tensors, "selected") {
                let words = row(&tensors, "selected", Dtype::U32)?;
                Some(words.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect())
            } else {
                None
            };
            Some(Variances { selected, values: floats(&tensors, "variance")? })
        } else {
            None
        };
        Ok(Self { round, client, samples, loss, shared, spread })
    }
}

fn broken(error: impl std::fmt::Display) -> MessageError {
    MessageError(error.to_string())
}

fn encode(envelope: &Envelope, rows: &[Row<'_>]) -> Result<Vec<u8>, MessageError> {
    let data: Vec<Vec<u8>> = rows.iter().map(Row::bytes).collect();
    let mut views = Vec::with_capacity(rows.len());
    for (row, data) in rows.iter().zip(&data) {
        let (name, kind, length) = row.about();
        views.push((name, TensorView::new(kind, vec![length], data).map_err(broken)?));
    }
    let words = serde_json::to_string(envelope).map_err(broken)?;
    // One entry: the format's map has no order, and equal messages must be equal bytes.
    serialize(views, Some([("fedsi".to_owned(), words)].into())).map_err(broken)
}

/// Rows are given in the order the format stores them: floats before integers, by name.
fn encoded_len(envelope: &Envelope, rows: &[Row<'_>]) -> usize {
    let words = serde_json::to_string(envelope).unwrap_or_default();
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), serde_json::json!({ "fedsi": words }));
    let mut end = 0;
    for row in rows {
        let (name, kind, length) = row.about();
        let offsets = [end, end + 4 * length];
        end = offsets[1];
        let entry = serde_json::json!({ "dtype": kind, "shape": [length], "data_offsets": offsets });
        header.insert(name.to_owned(), entry);
    }
    8 + serde_json::Value::Object(header).to_string().len().next_multiple_of(8) + end
}

fn decode(bytes: &[u8]) -> Result<(Envelope, SafeTensors<'_>), MessageError> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let words = header.metadata().as_ref().and_then(|map| map.get("fedsi"));
    let words = words.ok_or_else(|| MessageError("it has no `fedsi` entry".to_owned()))?;
    let envelope: Envelope = serde_json::from_str(words).map_err(broken)?;
    if envelope.format != FORMAT {
        return Err(MessageError(format!("its format is `{}`, expected `{FORMAT}`", envelope.format)));
    }
    Ok((envelope, SafeTensors::deserialize(bytes).map_err(broken)?))
}

fn has(tensors: &SafeTensors<'_>, name: &str) -> bool {
    tensors.tensor(name).is_ok()
}

/// A row of four-byte values of this kind.
fn row<'a>(tensors: &SafeTensors<'a>, name: &str, kind: Dtype) -> Result<&'a [[u8; 4]], MessageError> {
    let found = tensors.tensor(name).map_err(broken)?;
    if found.dtype() != kind || found.shape().len() != 1 {
        return Err(MessageError(format!("its `{name}` is no row of {kind:?}")));
    }
    Ok(found.data().as_chunks::<4>().0)
}

fn floats(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, MessageError> {
    Ok(row(tensors, name, Dtype::F32)?.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
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
            spread in proptest::option::of(proptest::collection::vec((any::<u32>(), 0.0_f32..9.0), 0..20)),
            all: bool,
        ) {
            let spread = spread.map(|pairs| {
                let (selected, values): (Vec<u32>, _) = pairs.into_iter().unzip();
                Variances { selected: (!all).then_some(selected), values }
            });
            let upload = Upload { round, client, samples, loss, shared, spread };
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
            let upload = Upload { round: 3, client: 4, samples: 5, loss: Some(0.5), shared: vec![1.0; 30], spread: None };
            let mut bytes = upload.encode().unwrap();
            if let Some(byte) = bytes.get_mut(at) { *byte = value; }
            let _ = Upload::decode(&bytes);
        }
    }

    #[test]
    fn downloads_survive_the_journey() {
        let values = vec![0.5, -1.0, f32::MIN_POSITIVE];
        for shared in [Shared::point(values.clone()), Shared::gaussian(values, 0.25)] {
            let download = Download { round: 7, shared: Cow::Owned(shared) };
            let bytes = download.encode().unwrap();
            assert_eq!((bytes.len(), Download::decode(&bytes)), (download.encoded_len(), Ok(download)));
        }
    }

    #[test]
    fn a_download_is_no_upload() {
        let bytes = Download { round: 7, shared: Cow::Owned(Shared::point(vec![0.5])) }.encode().unwrap();
        let error = Upload::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("does not say who sent it"), "{error}");
    }
}
