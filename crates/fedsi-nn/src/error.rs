//! What can be wrong with a description of a network.

use thiserror::Error;

/// A list of layers that makes no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// No layers, or no input.
    #[error(
        "a network needs an input shape of positive sizes and at least one layer (input {input:?}, {layers} layers)"
    )]
    Empty {
        /// The input shape given.
        input: Vec<usize>,
        /// How many layers were given.
        layers: usize,
    },
    /// A layer that cannot take what the layer before it gives.
    #[error("layer {layer} ({name}) cannot take an input of shape {shape:?}: {expected}")]
    Shape {
        /// Index of the layer.
        layer: usize,
        /// Its name.
        name: &'static str,
        /// The shape it was offered.
        shape: Vec<usize>,
        /// What it takes, and what to do.
        expected: String,
    },
    /// A layer with a size of zero or a setting out of range.
    #[error("layer {layer} ({name}): {reason}")]
    Setting {
        /// Index of the layer.
        layer: usize,
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The last layer is the head, and must be linear.
    #[error("the last layer is the head and must be `linear`, found `{found}`")]
    Head {
        /// Name of the last layer.
        found: &'static str,
    },
    /// More layers than any network of layers in a row can be trained with.
    #[error("the network has {found} layers, at most {most} are possible")]
    TooManyLayers {
        /// How many were given.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// The network is larger than this machine can address.
    #[error("the network is too large: layer {layer} has more parameters or activations than fit in memory")]
    TooLarge {
        /// Index of the layer.
        layer: usize,
    },
}
