//! From the server to a client.

use std::sync::Arc;

use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::header::{self, WireError};
use super::parameters::read_shared;
use super::tensors::{NamedTensor, encoded_len};
use crate::parameters::SharedParameters;

const KIND: &str = "download";

/// What the server sends to a client: the shared part, and what it must know besides.
///
/// | tensor (F32) | what |
/// |---|---|
/// | `shared` | the shared part's values, or means |
/// | `variance` | one a value, where the server holds a Gaussian |
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// The round that begins, or after training the last one completed.
    pub round: u64,
    /// The shared part.
    pub shared: Arc<SharedParameters>,
    /// Whether the server asks for variances in this round.
    pub variances_wanted: bool,
    /// Whether the client does not train on a share of its data, by which the federation will choose a prior variance.
    pub data_set_aside: bool,
    /// The prior variance of personal models, once the federation has chosen it.
    pub prior_variance: Option<f64>,
    /// Prior variances that the client is to score on the data it set aside; none but in the federation's search.
    pub prior_candidates: Vec<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    round: u64,
    variances_wanted: bool,
    data_set_aside: bool,
    prior_variance: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prior_candidates: Vec<f64>,
}

impl Download {
    /// The shared part for this round, and nothing else to know.
    #[must_use]
    pub const fn new(round: u64, shared: Arc<SharedParameters>) -> Self {
        Self {
            round,
            shared,
            variances_wanted: false,
            data_set_aside: false,
            prior_variance: None,
            prior_candidates: Vec::new(),
        }
    }

    fn content(&self) -> Content {
        let Self { round, variances_wanted, data_set_aside, prior_variance, .. } = *self;
        let prior_candidates = self.prior_candidates.clone();
        Content { round, variances_wanted, data_set_aside, prior_variance, prior_candidates }
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// A prior variance that is not finite; the format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let values = self.shared.values();
        let mut tensors = vec![NamedTensor::f32("shared", vec![values.len()], values)];
        if let Some(variance) = self.shared.variance() {
            tensors.push(NamedTensor::f32("variance", vec![variance.len()], variance));
        }
        header::encode(KIND, &self.content(), &tensors)
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let entry = header::text(KIND, &self.content()).unwrap_or_default();
        let mut tensors = vec![("shared", Dtype::F32, self.shared.values().len())];
        tensors.extend(self.shared.variance().map(|variance| ("variance", Dtype::F32, variance.len())));
        encoded_len(&entry, &tensors)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (content, file) = header::decode::<Content>(KIND, bytes)?;
        let Content { round, variances_wanted, data_set_aside, prior_variance, prior_candidates } = content;
        let shared = Arc::new(read_shared(&file, file.f32("shared")?, "variance")?);
        Ok(Self { round, shared, variances_wanted, data_set_aside, prior_variance, prior_candidates })
    }
}
