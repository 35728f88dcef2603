//! Settings of training: the local work of a round, the tuning at the end, scores in between.

use fedsi_nn::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::{number, whole};
use crate::parameters::Part;

const POSITIVE: &str = "it must be a finite number above 0";

/// The local work of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingConfig {
    /// Passes over a participant's data in a round, over all phases of the method together; at least 1.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Samples a step; the short last batch is kept.
    #[schemars(range(min = 1))]
    pub batch_size: usize,
    /// adam or sgd, with fresh state every round.
    pub optimizer: OptimizerName,
    /// Learning rate, above 0.
    pub learning_rate: f64,
    /// sgd: momentum, 0 up to but not including 1.
    pub momentum: f64,
    /// Standard deviation of Gaussian noise on the parameters that a phase of local training moves, 0 for none: what is
    /// minimised is then the mean loss of a neighbourhood. Not for methods that train distributions or samples.
    pub weight_noise: f64,
    /// The noise of convolutions, as a factor of `weight_noise`, 0 up to 1: a weight of theirs is used at every place, so that
    /// noise on it does not average out.
    pub convolution_noise: f64,
}

/// An optimiser's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerName {
    /// Adam with PyTorch's defaults.
    Adam,
    /// Stochastic gradient descent.
    Sgd,
}

impl TrainingConfig {
    /// Ten epochs of Adam at 1e-3, batches of 50, no weight noise.
    pub(crate) const DEFAULTS: Self = Self {
        epochs: 10,
        batch_size: 50,
        optimizer: OptimizerName::Adam,
        learning_rate: 1e-3,
        momentum: 0.0,
        weight_noise: 0.0,
        convolution_noise: 0.5,
    };

    /// The optimiser at this learning rate.
    #[must_use]
    pub const fn optimizer(&self, rate: f64) -> OptimizerSpec {
        match self.optimizer {
            OptimizerName::Adam => OptimizerSpec::adam(rate),
            OptimizerName::Sgd => OptimizerSpec::Sgd { rate, momentum: self.momentum },
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        whole("training.epochs", self.epochs, 1..=usize::MAX, "a round needs at least 1 epoch")?;
        let batch = "between 1 and 16777216 samples a step";
        whole("training.batch_size", self.batch_size, 1..=1 << 24, batch)?;
        number("training.learning_rate", self.learning_rate, |x| x > 0.0, POSITIVE)?;
        let momentum = "0 up to, not including, 1";
        number("training.momentum", self.momentum, |x| (0.0..1.0).contains(&x), momentum)?;
        number("training.weight_noise", self.weight_noise, |x| x >= 0.0, "a finite number, 0 or above")?;
        let factor = "a factor from 0 to 1";
        number("training.convolution_noise", self.convolution_noise, |x| (0.0..=1.0).contains(&x), factor)
    }
}

/// Personalising at the end: as the method declares, or the same for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TuningConfig {
    /// Passes over the client's training data; 0 leaves the model as it is.
    pub epochs: usize,
    /// Learning rate, above 0.
    pub learning_rate: f64,
    /// What is tuned: method (what the method declares, in some methods nothing), head, or all. The latter two give
    /// every method the same epochs of adaptation, each in its own way: points, distributions, samples of the head.
    pub part: TunedPart,
}

/// What is tuned at the end, of any method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TunedPart {
    /// What the method declares, which may be nothing.
    Method,
    /// The last linear layer.
    Head,
    /// The whole network.
    All,
}

impl TunedPart {
    /// The part that is tuned whatever the method declares; none where that decides.
    pub(crate) const fn part(self) -> Option<Part> {
        match self {
            Self::Method => None,
            Self::Head => Some(Part::Head),
            Self::All => Some(Part::All),
        }
    }
}

impl TuningConfig {
    /// Ten epochs at 1e-3 of what the method declares.
    pub(super) const DEFAULTS: Self = Self { epochs: 10, learning_rate: 1e-3, part: TunedPart::Method };

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        number("tuning.learning_rate", self.learning_rate, |x| x > 0.0, POSITIVE)
    }
}

/// What is tuned at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tuned {
    /// The last linear layer.
    Head,
    /// The whole network.
    All,
}

impl Tuned {
    pub(crate) const fn part(self) -> Part {
        match self {
            Self::Head => Part::Head,
            Self::All => Part::All,
        }
    }
}

/// Scores while training. Test data is touched once, at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationConfig {
    /// Share of each client's training data, 0 up to 0.9, that it does not learn from; each round's participants
    /// are scored on it.
    pub fraction: f64,
}

impl ValidationConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        number("validation.fraction", self.fraction, |x| (0.0..=0.9).contains(&x), "a share from 0 to 0.9")
    }
}
