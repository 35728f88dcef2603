//! From a participant to the server, where the federation chooses a prior variance or a temperature.

use serde::{Deserialize, Serialize};

use super::header::{self, WireError};
use super::tensors::encoded_len;
use crate::calibration::CandidateScore;

const KIND: &str = "calibration-scores";

/// What one client found of several candidates on the data it set aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationScores {
    /// The round after which the server chooses.
    pub round: u64,
    /// The sender.
    pub client: usize,
    /// Its samples, counted once for each mode that set them aside.
    pub samples: usize,
    /// One for each candidate, in their order.
    pub candidates: Vec<CandidateScore>,
}

impl CalibrationScores {
    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        header::encode(KIND, self, &[])
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(&header::text(KIND, self).unwrap_or_default(), &[])
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Ok(header::decode(KIND, bytes)?.0)
    }
}
