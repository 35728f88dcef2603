//! From a participant to the server.

use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::header::{self, WireError};
use super::tensors::{NamedTensor, encoded_len};

const KIND: &str = "upload";

/// The shared part after local training.
///
/// | tensor | what |
/// |---|---|
/// | `shared` (F32) | the shared part's values, or means |
/// | `variance` (F32) | one a value, or one a selected parameter, where the server asked for them |
/// | `selected` (U32) | which parameters those are, ascending; absent where it is all of them |
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
    /// Their variances, where the server asked for them.
    pub variances: Option<Variances>,
}

/// Variances that a participant sends: of all shared parameters, or of the few it infers a distribution of; every other
/// one is then a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variances {
    /// Ascending indices within the shared part; none for all of it.
    pub selected: Option<Vec<u32>>,
    /// The variances, above 0.
    pub values: Vec<f32>,
}

/// Why variances cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum VarianceError {
    /// More or fewer than parameters.
    #[error("it sent {found} variances for {expected} parameters")]
    Count {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// Indices that are not ascending.
    #[error("the parameters it sent variances of are not in ascending order")]
    Order,
    /// An index beyond the shared part.
    #[error("it sent a variance of parameter {index} of {size}")]
    Index {
        /// The index.
        index: u32,
        /// Parameters of the shared part.
        size: usize,
    },
    /// A variance that is 0, negative, infinite or NaN.
    #[error("the variance it sent of parameter {index} is {value}")]
    Value {
        /// The parameter.
        index: usize,
        /// Its variance.
        value: f32,
    },
}

impl Variances {
    /// Which parameters these are variances of, and what they are.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, f32)> {
        let selected = self.selected.as_deref();
        self.values.iter().enumerate().map(move |(place, &variance)| match selected {
            Some(selected) => (selected[place] as usize, variance),
            None => (place, variance),
        })
    }

    /// Whether these are variances of a shared part of `size` parameters.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn check(&self, size: usize) -> Result<(), VarianceError> {
        let found = self.values.len();
        let expected = self.selected.as_ref().map_or(size, Vec::len);
        if expected != found {
            return Err(VarianceError::Count { found, expected });
        }
        if let Some(selected) = &self.selected {
            if !selected.is_sorted_by(|a, b| a < b) {
                return Err(VarianceError::Order);
            }
            if let Some(&index) = selected.last().filter(|&&last| last as usize >= size) {
                return Err(VarianceError::Index { index, size });
            }
        }
        match self.pairs().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((index, value)) => Err(VarianceError::Value { index, value }),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    round: u64,
    client: usize,
    samples: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

impl Upload {
    fn content(&self) -> Content {
        let Self { round, client, samples, loss, .. } = *self;
        Content { round, client, samples, loss: loss.filter(|loss| loss.is_finite()) }
    }

    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut tensors = vec![NamedTensor::f32("shared", vec![self.shared.len()], &self.shared)];
        if let Some(Variances { selected, values }) = &self.variances {
            tensors.push(NamedTensor::f32("variance", vec![values.len()], values));
            tensors.extend(selected.as_deref().map(|selected| NamedTensor::u32("selected", selected)));
        }
        header::encode(KIND, &self.content(), &tensors)
    }

    /// How many bytes [`Self::encode`] gives, without writing them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let entry = header::text(KIND, &self.content()).unwrap_or_default();
        let mut tensors = vec![("shared", Dtype::F32, self.shared.len())];
        if let Some(Variances { selected, values }) = &self.variances {
            tensors.push(("variance", Dtype::F32, values.len()));
            tensors.extend(selected.as_ref().map(|selected| ("selected", Dtype::U32, selected.len())));
        }
        encoded_len(&entry, &tensors)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (content, file) = header::decode::<Content>(KIND, bytes)?;
        let Content { round, client, samples, loss } = content;
        let variances = if file.has("selected") || file.has("variance") {
            let selected = if file.has("selected") { Some(file.u32("selected")?) } else { None };
            let values = file.f32("variance")?;
            if selected.as_ref().is_some_and(|selected| selected.len() != values.len()) {
                return Err(WireError::Incomplete("variances are not as many as selected parameters"));
            }
            Some(Variances { selected, values })
        } else {
            None
        };
        Ok(Self { round, client, samples, loss, shared: file.f32("shared")?, variances })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_variances_are_named() {
        let sent = |selected: &[u32], values: &[f32]| {
            let variances = Variances { selected: Some(selected.to_vec()), values: values.to_vec() };
            variances.check(4).map_or_else(|error| error.to_string(), |()| String::new())
        };
        let all = |values: &[f32]| {
            let variances = Variances { selected: None, values: values.to_vec() };
            variances.check(3).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(all(&[0.1, 0.2, 0.3]), "");
        assert!(all(&[0.1, 0.2]).contains("2 variances for 3"));
        assert!(all(&[0.1, 0.2, f32::INFINITY]).contains("parameter 2 is inf"));
        assert_eq!(sent(&[0, 3], &[0.1, 0.2]), "");
        assert!(sent(&[0, 3], &[0.1]).contains("1 variances for 2"));
        assert!(sent(&[3, 0], &[0.1, 0.1]).contains("ascending"));
        assert!(sent(&[2, 2], &[0.1, 0.1]).contains("ascending"), "twice the same");
        assert!(sent(&[0, 4], &[0.1, 0.1]).contains("parameter 4 of 4"));
        assert!(sent(&[0, 3], &[0.1, -0.1]).contains("parameter 3 is -0.1"));
        assert!(sent(&[1], &[f32::NAN]).contains("parameter 1 is NaN"));
        assert!(sent(&[1], &[0.0]).contains("parameter 1 is 0"));
    }
}
