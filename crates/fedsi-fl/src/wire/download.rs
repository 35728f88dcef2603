//! From the server to a client.

use std::sync::Arc;

use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::header::{self, WireError};
use super::parameters::read_shared;
use super::tensors::{NamedTensor, encoded_len};
use crate::calibration::{Calibration, Candidates};
use crate::parameters::{Gaussian, SharedParameters};

const KIND: &str = "download";

/// What the server sends to a client: the shared part of one mode, to train, or of all, to personalise; and what it must
/// know besides.
///
/// | tensor (F32) | what |
/// |---|---|
/// | `shared` | the shared parts' values, or means: one mode after the other |
/// | `variance` | one a value, where the server holds a Gaussian |
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// The round that begins, or after training the last one completed.
    pub round: u64,
    /// The shared part of each mode that is sent.
    pub modes: Vec<SharedMode>,
    /// Whether the server asks for variances in this round.
    pub variances_wanted: bool,
    /// Whether the client does not train on a share of its data, by which the federation will choose something.
    pub data_set_aside: bool,
    /// Whether, of that share, it does not train on what neighbouring modes have in common.
    pub common_set_aside: bool,
    /// What the federation has chosen.
    pub calibration: Calibration,
    /// Values that the client is to score on the data it set aside; none but where the federation chooses.
    pub candidates: Option<Candidates>,
}

/// The shared part of a mode.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedMode {
    /// Which mode.
    pub mode: usize,
    /// Its shared part.
    pub shared: Arc<SharedParameters>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    round: u64,
    modes: Vec<usize>,
    variances_wanted: bool,
    data_set_aside: bool,
    #[serde(default, skip_serializing_if = "is_no")]
    common_set_aside: bool,
    calibration: Calibration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    candidates: Option<Candidates>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_no(value: &bool) -> bool {
    !*value
}

impl Download {
    /// The shared part of a single network for this round, and nothing else to know.
    #[must_use]
    pub fn new(round: u64, shared: Arc<SharedParameters>) -> Self {
        Self::of_modes(round, vec![SharedMode { mode: 0, shared }])
    }

    /// The shared parts of these modes for this round, and nothing else to know.
    #[must_use]
    pub fn of_modes(round: u64, modes: Vec<SharedMode>) -> Self {
        Self {
            round,
            modes,
            variances_wanted: false,
            data_set_aside: false,
            common_set_aside: false,
            calibration: Calibration::default(),
            candidates: None,
        }
    }

    fn content(&self) -> Content {
        Content {
            round: self.round,
            modes: self.modes.iter().map(|one| one.mode).collect(),
            variances_wanted: self.variances_wanted,
            data_set_aside: self.data_set_aside,
            common_set_aside: self.common_set_aside,
            calibration: self.calibration,
            candidates: self.candidates.clone(),
        }
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// A number that is not finite; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut tensors = vec![self.joined("shared", |shared| Some(shared.values()))];
        if self.has_variances() {
            tensors.push(self.joined("variance", SharedParameters::variance));
        }
        header::encode(KIND, &self.content(), &tensors)
    }

    /// Values of all modes, one after the other.
    fn joined(&self, name: &str, of: fn(&SharedParameters) -> Option<&[f32]>) -> NamedTensor {
        let parts: Vec<&[f32]> = self.modes.iter().filter_map(|one| of(&one.shared)).collect();
        let values = parts.concat();
        NamedTensor::f32(name, vec![values.len()], &values)
    }

    fn has_variances(&self) -> bool {
        self.modes.iter().any(|one| one.shared.variance().is_some())
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let entry = header::text(KIND, &self.content()).unwrap_or_default();
        let count = self.modes.iter().map(|one| one.shared.values().len()).sum();
        let mut tensors = vec![("shared", Dtype::F32, count)];
        if self.has_variances() {
            tensors.push(("variance", Dtype::F32, count));
        }
        encoded_len(&entry, &tensors)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (content, file) = header::decode::<Content>(KIND, bytes)?;
        let Content {
            round,
            modes,
            variances_wanted,
            data_set_aside,
            common_set_aside,
            calibration,
            candidates,
        } = content;
        if !calibration.is_sound() || !candidates.as_ref().is_none_or(Candidates::are_sound) {
            return Err(WireError::Incomplete(
                "a prior variance or temperature is not a finite number above 0",
            ));
        }
        let shared = read_shared(&file, file.f32("shared")?, "variance")?;
        let count = shared.values().len();
        if modes.is_empty() || !count.is_multiple_of(modes.len()) {
            return Err(WireError::Incomplete("the shared values are not as many for each mode"));
        }
        let size = count / modes.len();
        let part = |(place, mode): (usize, usize)| {
            let range = place * size..(place + 1) * size;
            let values = shared.values()[range.clone()].to_vec();
            let shared = match shared.variance() {
                None => SharedParameters::Point(values),
                Some(variance) => {
                    SharedParameters::Gaussian(Gaussian { mean: values, variance: variance[range].to_vec() })
                }
            };
            SharedMode { mode, shared: Arc::new(shared) }
        };
        let modes = modes.into_iter().enumerate().map(part).collect();
        Ok(Self { round, modes, variances_wanted, data_set_aside, common_set_aside, calibration, candidates })
    }
}
