//! From a participant to the server, in the round that chooses a prior variance.

use serde::{Deserialize, Serialize};

use super::header::{self, WireError};
use super::tensors::encoded_len;

const KIND: &str = "prior-scores";

/// What one client found of several prior variances on the data it set aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorScores {
    /// The round after which the server searches.
    pub round: u64,
    /// The sender.
    pub client: usize,
    /// Its samples.
    pub samples: usize,
    /// The negative log likelihood under each prior variance, summed over them. Finite.
    pub losses: Vec<f64>,
}

impl PriorScores {
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
