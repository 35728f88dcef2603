//! What a kernel is made for.

use fedsi_fl::parameters::Part;
use fedsi_nn::{Loss, Network, OptimizerSpec};

/// Training of point values as a kernel sees it: what is fixed when it is compiled. The rest is in [`super::Settings`].
#[derive(Clone, Copy, Debug)]
pub struct TrainingRequest<'a> {
    /// The layers.
    pub network: &'a Network,
    /// What moves: all or the body. (A head alone is a network of its own, on the body's features.)
    pub part: Part,
    /// What is minimised.
    pub loss: LossKind,
    /// Which optimiser.
    pub optimizer: OptimizerKind,
    /// Whether a prior pulls parameters.
    pub prior: bool,
    /// Whether there is Gaussian noise on the parameters that move: on the outputs of linear layers, on the weights of
    /// convolutions.
    pub weight_noise: bool,
    /// The outputs are those of so many heads side by side ([`Network::under_heads`]), each of which predicts the targets;
    /// the loss is the mean over all.
    pub heads: usize,
    /// Samples of the largest batch.
    pub batch: usize,
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// `-log softmax(f)[y]`.
    CrossEntropy,
    /// Squared errors times half a precision.
    Gaussian,
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptimizerKind {
    /// Adam.
    Adam,
    /// Plain gradient descent.
    Sgd,
    /// Gradient descent with momentum.
    Momentum,
}

impl From<Loss> for LossKind {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::CrossEntropy => Self::CrossEntropy,
            Loss::Gaussian { .. } => Self::Gaussian,
        }
    }
}

impl From<OptimizerSpec> for OptimizerKind {
    fn from(spec: OptimizerSpec) -> Self {
        match spec {
            OptimizerSpec::Adam { .. } => Self::Adam,
            OptimizerSpec::Sgd { momentum: 0.0, .. } => Self::Sgd,
            OptimizerSpec::Sgd { .. } => Self::Momentum,
        }
    }
}
