//! What is known of a network's parameters: one type from the server to messages, clients and model files.
//!
//! | kind | known | who has it |
//! |---|---|---|
//! | [`Parameters::Point`] | values | server, clients |
//! | [`Parameters::Gaussian`] | a mean and a variance each | server, clients that train distributions |
//! | [`Parameters::Samples`] | values, and samples of the head | clients that sample |
//! | [`Parameters::Laplace`] | values, and a Gaussian posterior over some of them | personal models |
//!
//! Only the first two can be shared: [`SharedParameters`].

mod kept;
mod part;

use std::ops::Range;

use fedsi_bayes::{Laplace, Predictive};
use thiserror::Error;

pub use kept::Kept;
pub use part::Part;

/// What is known of some parameters: of a whole network, or of the part of it that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// Their values.
    Point(Vec<f32>),
    /// An independent normal for each.
    Gaussian(Gaussian),
    /// Their values, and samples of the head.
    Samples(HeadSamples),
    /// Their values, and a posterior over some of them under which the linearised network predicts.
    Laplace(Box<LaplaceParameters>),
}

/// Independent normals: the one form of a diagonal Gaussian.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    /// Means.
    pub mean: Vec<f32>,
    /// Variances, above 0; infinite where nothing is known.
    pub variance: Vec<f32>,
}

/// Samples of a head, beside the values of all parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadSamples {
    /// Values; of the head the newest sample.
    pub values: Vec<f32>,
    /// Samples of the head, one after another, the newest last. None before the first is drawn.
    pub samples: Vec<f32>,
}

/// Values with a Laplace posterior over some of them.
#[derive(Clone, Debug)]
pub struct LaplaceParameters {
    /// The values at which the network is linearised.
    pub values: Vec<f32>,
    /// The Gaussian over the selected parameters, with the network it belongs to.
    pub fit: Laplace,
    /// How a distribution of outputs becomes class probabilities.
    pub predictive: Predictive,
}

/// Equal values, posteriors and predictives; networks are not compared.
impl PartialEq for LaplaceParameters {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
            && self.predictive == other.predictive
            && self.fit.posterior() == other.fit.posterior()
            && self.fit.explanation() == other.fit.explanation()
    }
}

/// What the server can hold, send and average.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedParameters {
    /// Values.
    Point(Vec<f32>),
    /// An independent normal for each.
    Gaussian(Gaussian),
}

/// Parameters of another kind or number than were expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}")]
pub struct KindError {
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Gaussian {
    /// The same variance around every value.
    #[must_use]
    pub fn uniform(mean: Vec<f32>, variance: f64) -> Self {
        let variance = vec![variance as f32; mean.len()];
        Self { mean, variance }
    }

    /// The standard deviations.
    #[must_use]
    pub fn deviations(&self) -> Vec<f32> {
        self.variance.iter().map(|variance| variance.sqrt()).collect()
    }

    /// From standard deviations. `sqrt(fl(d * d)) = d` to the bit, so going there and back loses nothing; a square that
    /// is too small for single precision becomes the smallest normal number.
    #[must_use]
    pub fn from_deviations(mean: Vec<f32>, deviations: &[f32]) -> Self {
        Self {
            mean,
            variance: deviations.iter().map(|&deviation| at_least_smallest(deviation * deviation)).collect(),
        }
    }
}

/// The variance, or the smallest normal number where it is below that. A NaN stays one, to be refused by the server.
fn at_least_smallest(variance: f32) -> f32 {
    if variance < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { variance }
}

impl SharedParameters {
    /// The values, or means.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Point(values) => values,
            Self::Gaussian(gaussian) => &gaussian.mean,
        }
    }

    /// The variances of a Gaussian.
    #[must_use]
    pub fn variance(&self) -> Option<&[f32]> {
        match self {
            Self::Point(_) => None,
            Self::Gaussian(gaussian) => Some(&gaussian.variance),
        }
    }

    /// What lies in `range`.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Point(values) => Self::Point(values[range].to_vec()),
            Self::Gaussian(Gaussian { mean, variance }) => Self::Gaussian(Gaussian {
                mean: mean[range.clone()].to_vec(),
                variance: variance[range].to_vec(),
            }),
        }
    }

    /// The same with other values, of the same kind and number, in `range`.
    pub(crate) fn with_part(&self, range: Range<usize>, part: &Self) -> Self {
        let mut whole = self.clone();
        match (&mut whole, part) {
            (Self::Point(values), _) => values[range].copy_from_slice(part.values()),
            (Self::Gaussian(own), Self::Gaussian(part)) => {
                own.mean[range.clone()].copy_from_slice(&part.mean);
                own.variance[range].copy_from_slice(&part.variance);
            }
            (Self::Gaussian(own), Self::Point(part)) => own.mean[range].copy_from_slice(part),
        }
        whole
    }

    /// Kind and number of parameters, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Point(values) => format!("{} values", values.len()),
            Self::Gaussian(gaussian) => {
                format!("{} means and {} variances", gaussian.mean.len(), gaussian.variance.len())
            }
        }
    }

    /// Whether `other` holds the same kind and number of parameters.
    ///
    /// # Errors
    /// Says how they differ.
    pub fn expect_like(&self, other: &Self) -> Result<(), KindError> {
        let (expected, found) = (self.describe(), other.describe());
        if expected == found { Ok(()) } else { Err(KindError { expected, found }) }
    }
}

impl Parameters {
    /// The values: points, means, the newest sample, or where the network is linearised.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Point(values) => values,
            Self::Gaussian(gaussian) => &gaussian.mean,
            Self::Samples(head) => &head.values,
            Self::Laplace(laplace) => &laplace.values,
        }
    }

    /// The values, to be trained.
    pub fn values_mut(&mut self) -> &mut Vec<f32> {
        match self {
            Self::Point(values) => values,
            Self::Gaussian(gaussian) => &mut gaussian.mean,
            Self::Samples(head) => &mut head.values,
            Self::Laplace(laplace) => &mut laplace.values,
        }
    }

    /// The kind of it, for messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Point(_) => "point values",
            Self::Gaussian(_) => "a Gaussian",
            Self::Samples(_) => "samples of the head",
            Self::Laplace(_) => "a Laplace posterior",
        }
    }

    /// Kind and number of parameters, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} of {} parameters", self.kind(), self.values().len())
    }

    /// The part of it that lies in `range`. Samples stay with it: they are of a kept head. A Laplace posterior is of the
    /// whole network, so its part is the values alone.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Point(values) => Self::Point(values[range].to_vec()),
            Self::Gaussian(Gaussian { mean, variance }) => Self::Gaussian(Gaussian {
                mean: mean[range.clone()].to_vec(),
                variance: variance[range].to_vec(),
            }),
            Self::Samples(HeadSamples { values, samples }) => {
                Self::Samples(HeadSamples { values: values[range].to_vec(), samples: samples.clone() })
            }
            Self::Laplace(laplace) => Self::Point(laplace.values[range].to_vec()),
        }
    }

    /// Whether `part` can be put into `range`.
    ///
    /// # Errors
    /// A part of another kind or length; samples that are not a whole number of heads.
    pub fn expect_part(&self, range: &Range<usize>, part: &Self) -> Result<(), KindError> {
        let expected = || format!("{} of {} parameters", self.kind(), range.len());
        let same_kind = match (self, part) {
            (Self::Point(_), Self::Point(_)) => true,
            (Self::Gaussian(_), Self::Gaussian(part)) => part.variance.len() == range.len(),
            (Self::Samples(_), Self::Samples(part)) => {
                let whole = range.is_empty() || part.samples.len() % range.len() == 0;
                if !whole {
                    let found = format!("{} values of samples", part.samples.len());
                    return Err(KindError { expected: expected(), found });
                }
                true
            }
            _ => false,
        };
        if same_kind && part.values().len() == range.len() {
            return Ok(());
        }
        Err(KindError { expected: expected(), found: part.describe() })
    }

    /// Puts a part back into `range`.
    ///
    /// # Errors
    /// As [`Self::expect_part`]; nothing is changed then.
    pub fn put(&mut self, range: Range<usize>, part: &Self) -> Result<(), KindError> {
        self.expect_part(&range, part)?;
        match (&mut *self, part) {
            (Self::Point(values), Self::Point(part)) => values[range].copy_from_slice(part),
            (Self::Gaussian(own), Self::Gaussian(part)) => {
                own.mean[range.clone()].copy_from_slice(&part.mean);
                own.variance[range].copy_from_slice(&part.variance);
            }
            (Self::Samples(own), Self::Samples(part)) => {
                own.values[range].copy_from_slice(&part.values);
                own.samples.clone_from(&part.samples);
            }
            // Refused above.
            (Self::Point(_) | Self::Gaussian(_) | Self::Samples(_) | Self::Laplace(_), _) => {}
        }
        Ok(())
    }

    /// Whether all of it are finite numbers; of a posterior the values.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        is_finite(self.values())
            && match self {
                Self::Point(_) | Self::Laplace(_) => true,
                Self::Gaussian(gaussian) => is_finite(&gaussian.variance),
                Self::Samples(head) => is_finite(&head.samples),
            }
    }
}

/// Whether all values are finite. No early exit: it runs in vectors, and the answer is almost always yes.
#[must_use]
pub fn is_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |finite, value| finite & value.is_finite())
}

/// The same values in double precision.
pub(crate) fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Why one form of a Gaussian is enough: standard deviations survive being kept as variances.
        #[test]
        fn deviations_survive_as_variances(deviations in proptest::collection::vec(1e-18_f32..1e18, 1..50)) {
            let gaussian = Gaussian::from_deviations(vec![0.0; deviations.len()], &deviations);
            prop_assert_eq!(gaussian.deviations(), deviations);
        }
    }

    #[test]
    fn a_part_goes_back_only_where_it_fits() {
        let mut whole = Parameters::Gaussian(Gaussian::uniform(vec![1.0, 2.0, 3.0], 0.5));
        let part = whole.part(1..3);
        assert_eq!(part, Parameters::Gaussian(Gaussian::uniform(vec![2.0, 3.0], 0.5)));
        assert_eq!(whole.put(0..2, &part), Ok(()));
        assert_eq!(whole.values(), [2.0, 3.0, 3.0]);
        let wrong_length = whole.put(0..3, &part).unwrap_err();
        assert_eq!(
            wrong_length.to_string(),
            "expected a Gaussian of 3 parameters, found a Gaussian of 2 parameters"
        );
        let wrong_kind = whole.put(0..2, &Parameters::Point(vec![0.0; 2])).unwrap_err();
        assert_eq!(
            wrong_kind.to_string(),
            "expected a Gaussian of 2 parameters, found point values of 2 parameters"
        );
        assert_eq!(whole.values(), [2.0, 3.0, 3.0], "refused parts change nothing");
    }

    #[test]
    fn samples_travel_with_the_head() {
        let sampled =
            |values: Vec<f32>, samples: Vec<f32>| Parameters::Samples(HeadSamples { values, samples });
        let mut whole = sampled(vec![1.0, 2.0], vec![]);
        whole.put(1..2, &sampled(vec![5.0], vec![4.0, 5.0])).unwrap();
        assert_eq!(whole, sampled(vec![1.0, 5.0], vec![4.0, 5.0]));
        assert_eq!(whole.part(1..2), sampled(vec![5.0], vec![4.0, 5.0]));
        let mut two = sampled(vec![1.0, 2.0, 3.0], vec![]);
        let torn = two.put(1..3, &sampled(vec![5.0, 6.0], vec![4.0, 5.0, 6.0])).unwrap_err();
        assert_eq!(
            torn.to_string(),
            "expected samples of the head of 2 parameters, found 3 values of samples",
            "one and a half heads"
        );
    }
}
