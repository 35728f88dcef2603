//! Why a subnetwork cannot be chosen.

use std::ops::Range;

/// Why a selection was refused. Indices count in the flat parameters, from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// A range that does not lie within the network's parameters.
    #[error("the candidates {}..{} do not lie within the network's {parameters} parameters", .range.start, .range.end)]
    Range {
        /// The range asked for.
        range: Range<usize>,
        /// Parameters of the network.
        parameters: usize,
    },

    /// An array that does not have one value for each parameter.
    #[error("{array}: expected {expected} values, one a parameter, found {found}")]
    Length {
        /// Which array.
        array: &'static str,
        /// Values it should have.
        expected: usize,
        /// Values it has.
        found: usize,
    },

    /// A prior variance that is not positive.
    #[error("parameter {index}: a prior variance must be positive, found {value}")]
    PriorVariance {
        /// The parameter.
        index: usize,
        /// Its prior variance.
        value: f64,
    },

    /// No parameter is to be chosen.
    #[error("a subnetwork needs at least one parameter, found 0 (of {candidates} candidates)")]
    Empty {
        /// Parameters that could be chosen.
        candidates: usize,
    },

    /// More parameters are wanted than there are.
    #[error("a subnetwork of {size} parameters cannot be chosen from {candidates} candidates")]
    TooLarge {
        /// Parameters wanted.
        size: usize,
        /// Parameters that could be chosen.
        candidates: usize,
    },

    /// A layer or tensor that is not among the candidates.
    #[error("no layer or tensor {name:?} among the candidates: expected one of {}", .known.join(", "))]
    UnknownLayer {
        /// The name asked for.
        name: String,
        /// Layers and tensors that could be named.
        known: Vec<String>,
    },

    /// An index beyond the candidates.
    #[error("parameter {index} is not among the candidates {}..{}", .range.start, .range.end)]
    OutOfRange {
        /// The index.
        index: usize,
        /// The candidates.
        range: Range<usize>,
    },

    /// Indices that repeat or descend.
    #[error("a subnetwork's indices must ascend, found {second} after {first}")]
    NotAscending {
        /// An index.
        first: usize,
        /// The one that follows it.
        second: usize,
    },

    /// A reason of a rule's own.
    #[error("selection rule {rule:?}: {reason}")]
    Rule {
        /// The rule's name.
        rule: String,
        /// Why it chooses nothing.
        reason: String,
    },
}
