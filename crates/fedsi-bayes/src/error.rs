//! What can be wrong with a posterior asked for.

use thiserror::Error;

/// A posterior that cannot be made.
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
    /// A prior variance that is none.
    #[error("prior variances must be positive and finite, found {variance} at position {position}")]
    Prior {
        /// Where in the list.
        position: usize,
        /// The variance found there.
        variance: f64,
    },
    /// A noise standard deviation that is none.
    #[error("noise must be positive and finite, found {noise} for output {output}")]
    Noise {
        /// Which output.
        output: usize,
        /// The standard deviation found there.
        noise: f64,
    },
    /// A tolerance or a scale that makes no sense.
    #[error("{what} must be finite and not negative (scales: positive), found {value}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// The value found.
        value: f64,
    },
    /// More memory than any machine should be asked for.
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
}
