//! Why a posterior cannot be computed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// A network that could not be evaluated, in the words of its own library.
#[derive(Clone, Debug)]
pub struct EvaluationError {
    /// What its library said.
    pub reason: String,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

impl EvaluationError {
    /// A failure that only words are known of.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), cause: None }
    }

    /// A failure that is kept as its [`source`](StdError::source), so that whoever knows its type finds it unchanged.
    pub fn caused_by(cause: impl StdError + Send + Sync + 'static) -> Self {
        Self { reason: cause.to_string(), cause: Some(Arc::new(cause)) }
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the network could not be evaluated: {}", self.reason)
    }
}

impl StdError for EvaluationError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The error itself, not the pointer to it: what a caller downcasts.
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// Failures are the same where they say the same.
impl PartialEq for EvaluationError {
    fn eq(&self, other: &Self) -> bool {
        self.reason == other.reason
    }
}

impl Eq for EvaluationError {}

/// Why a posterior cannot be computed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PosteriorError {
    /// Inputs or parameters of the wrong length.
    #[error("{what}: expected {expected} values, found {found}")]
    Length {
        /// Which array.
        what: &'static str,
        /// How many values it should have (or a multiple of which).
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// The subnetwork is not a list of ascending parameter indices.
    #[error(
        "the subnetwork must be ascending indices below {parameters}, found {index} at position {position}"
    )]
    Selection {
        /// Where in the list.
        position: usize,
        /// The index found there.
        index: usize,
        /// How many parameters the network has.
        parameters: usize,
    },
    /// A range that does not lie within the network's parameters.
    #[error("the parameters {start}..{end} do not lie within the network's {parameters}")]
    Range {
        /// Where it starts.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Parameters of the network.
        parameters: usize,
    },
    /// A prior variance that is not positive and finite.
    #[error("prior variances must be positive and finite, found {variance} at position {position}")]
    Prior {
        /// Where in the list.
        position: usize,
        /// The variance found there.
        variance: f64,
    },
    /// A standard deviation of the noise that is not positive and finite.
    #[error("noise must be positive and finite, found {noise} for output {output}")]
    Noise {
        /// Which output.
        output: usize,
        /// The standard deviation found there.
        noise: f64,
    },
    /// A tolerance or a scale out of range.
    #[error("{what} must be finite and not negative (scales: positive), found {value}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// The value found.
        value: f64,
    },
    /// More memory than is allowed.
    #[error(
        "the covariance of {parameters} parameters given {rows} rows of data takes {gigabytes:.0} GiB, at most 16 are \
         allowed: choose a smaller subnetwork"
    )]
    TooLarge {
        /// Parameters in the subnetwork.
        parameters: usize,
        /// Samples times rows of the likelihood's factor.
        rows: usize,
        /// What it would take.
        gigabytes: f64,
    },
    /// The precision is not finite, or not positive definite in double precision.
    #[error(
        "the posterior's precision is not positive definite: \
         the network's outputs or derivatives on this data are not finite, or far too large"
    )]
    NotPositive,
    /// Targets of the wrong kind for the likelihood.
    #[error("the likelihood needs {expected} as targets, found {found}")]
    TargetKind {
        /// The kind that fits.
        expected: &'static str,
        /// The kind given.
        found: &'static str,
    },
    /// A label that is not a class of the network.
    #[error("label {label} of sample {row} is not a class: the network has {classes} outputs")]
    Label {
        /// Which sample.
        row: usize,
        /// Its label.
        label: u32,
        /// Outputs of the network.
        classes: usize,
    },
    /// A prediction that the likelihood does not have.
    #[error("{what} are not defined for a {likelihood} likelihood")]
    Likelihood {
        /// What was asked for.
        what: &'static str,
        /// The likelihood of the problem.
        likelihood: &'static str,
    },
    /// A posterior over a network of other layers.
    #[error("the posterior was computed for a network of other layers than the one given")]
    OtherNetwork,
    /// A device on which linear algebra runs failed.
    #[error("linear algebra on a device failed: {reason}")]
    Device {
        /// What it said.
        reason: String,
    },
    /// The network's library failed.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}
