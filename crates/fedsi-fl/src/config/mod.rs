//! What a run is told: parsed, layered over defaults, checked once. Only a [`Checked`] config runs.

mod check;
mod checkpoint;
mod error;
mod fedsi;
mod layers;
mod rivals;
mod text;
mod trouble;

pub use check::Checked;
pub use checkpoint::CheckpointConfig;
pub use error::ConfigError;
pub(crate) use error::hint;
pub use fedsi::{FedsiConfig, FinalPrior, NamedPrior, Profile};
pub use layers::{Overrides, assignment, resolve};
pub use rivals::{BpfedConfig, FedpopConfig, MeanFieldConfig, PfedbayesConfig};
pub use text::{commented, schema};
pub use trouble::{AggregateName, FaultsConfig, PrivacyConfig};

use fedsi_data::{DataSpec, DatasetName, PartitionKind, PartitionSpec, Size};
use fedsi_nn::{ConvSpec, LayerSpec, OptimizerSpec, PoolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::part::Part;

/// A complete description of a run. The same config gives the same bits, whatever the number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What to run; `fedsi methods` lists them.
    pub method: String,
    /// The defaults of fedsi and fedsi-fac: calibrated, or paper. What this file sets wins.
    pub profile: Profile,
    /// Every random draw of the run follows from this number, 0 up to 2^63 - 1.
    pub seed: u64,
    /// How often the server hears from clients, at least 1.
    #[schemars(range(min = 1))]
    pub rounds: usize,
    /// Threads that train clients side by side; 0: one for each core. Changes no result.
    pub threads: usize,
    /// Which data is learned from.
    pub data: DataSpec,
    /// Who gets which samples.
    pub partition: PartitionSpec,
    /// The network.
    pub model: ModelConfig,
    /// Server and participants.
    pub federation: FederationConfig,
    /// Clients that fail, simulated.
    pub faults: FaultsConfig,
    /// Client-level differential privacy.
    pub privacy: PrivacyConfig,
    /// The local work of a round.
    pub training: TrainingConfig,
    /// Personalising at the end, for the methods that do.
    pub tuning: TuningConfig,
    /// Scores while training.
    pub validation: ValidationConfig,
    /// What a run leaves behind.
    pub output: OutputConfig,
    /// How often a run's state is saved while it goes on, and where clients' state is.
    pub checkpoint: CheckpointConfig,
    /// Settings of the methods fedsi and fedsi-fac.
    pub fedsi: FedsiConfig,
    /// Settings of the method fedbabu.
    pub fedbabu: FedbabuConfig,
    /// Distributions of the methods pfedbayes and bpfed.
    pub mean_field: MeanFieldConfig,
    /// Settings of the method pfedbayes.
    pub pfedbayes: PfedbayesConfig,
    /// Settings of the method bpfed.
    pub bpfed: BpfedConfig,
    /// Settings of the method fedpop.
    pub fedpop: FedpopConfig,
}

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The layers below the head: { linear = N }, { conv = { out = N, kernel = K, stride = 1, padding = 0 } },
    /// { maxpool = N }, { avgpool = N }, "flatten", "relu", "tanh", "sigmoid", "silu", "softplus" or
    /// { leaky-relu = S }. The head, a linear layer with one output a class or target, is added.
    pub body: Vec<LayerSpec>,
    /// Regression: standard deviation of the noise, in units of the standardised targets. 0: each client's own
    /// residuals say (on held-out data where validation.fraction > 0, else on its training data).
    pub noise: f64,
}

/// Server and participants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FederationConfig {
    /// Clients drawn for a round, without replacement. 0: ten, or all where there are fewer.
    pub participants: usize,
    /// How much a participant counts in the average: uniform, or samples (in proportion to its training data).
    pub weighting: Weighting,
    /// Share of a round's participants, above 0 and at most 1, that must return a usable update. Below it the server
    /// keeps what it has: the round is skipped where clients were silent, late or sent damaged messages, and the run
    /// stops where their training diverged.
    pub quorum: f64,
    /// Rounds in a row that may be skipped; one more and the run stops.
    pub patience: u64,
    /// How updates become one: mean, median (of each parameter), or trimmed-mean (the same without the extremes).
    pub aggregate: AggregateName,
    /// trimmed-mean: share of the updates cut at each end, 0 up to but not including 0.5, rounded up.
    pub trim: f64,
    /// Largest norm of an update's difference from the server's values; longer ones are shortened to it. 0: none.
    pub clip: f64,
    /// An update is refused where its difference from the server's values is more than so many times as long as the
    /// round's median one, or where a standard deviation is so many times the server's. 0: none.
    pub largest: f64,
}

/// How much a participant counts in the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// All the same.
    Uniform,
    /// In proportion to its training samples.
    Samples,
}

/// The local work of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingConfig {
    /// Passes over a participant's data in a round, over all phases of the method together; at least 1.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Samples a step; the short last batch is kept.
    #[schemars(range(min = 1))]
    pub batch: usize,
    /// adam or sgd, with fresh state every round.
    pub optimizer: OptimizerName,
    /// Learning rate, above 0.
    pub rate: f64,
    /// sgd: momentum, 0 up to but not including 1.
    pub momentum: f64,
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
    /// The optimiser at this learning rate.
    #[must_use]
    pub const fn optimizer(&self, rate: f64) -> OptimizerSpec {
        match self.optimizer {
            OptimizerName::Adam => OptimizerSpec::adam(rate),
            OptimizerName::Sgd => OptimizerSpec::Sgd { rate, momentum: self.momentum },
        }
    }
}

/// Personalising at the end, for the methods that do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TuningConfig {
    /// Passes over the client's training data; 0 leaves the model as it is.
    pub epochs: usize,
    /// Learning rate, above 0.
    pub rate: f64,
}

/// Scores while training. Test data is touched once, at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationConfig {
    /// Share of each client's training data, 0 up to 0.9, that it does not learn from; each round's participants
    /// are scored on it.
    pub fraction: f64,
}

/// What a run leaves behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Whether each client's personal model is saved as clients/ID.safetensors.
    pub personal_models: bool,
}

/// Settings of the method fedbabu.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedbabuConfig {
    /// What is tuned at the end: head, or all.
    pub tune: Tuned,
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

impl Config {
    /// The method that runs when none is named.
    pub const DEFAULT_METHOD: &'static str = "fedsi";

    /// The settings of a method on a dataset, in the calibrated profile.
    #[must_use]
    pub fn defaults(method: &str, dataset: DatasetName, size: Size) -> Self {
        let partition = PartitionSpec::defaults(dataset, size);
        let rounds = match dataset {
            DatasetName::Mnist | DatasetName::FashionMnist | DatasetName::Cifar10 => 800,
            DatasetName::Digits | DatasetName::Files => 60,
        };
        Self {
            method: method.to_owned(),
            profile: Profile::Calibrated,
            seed: 1,
            rounds,
            threads: 0,
            data: DataSpec::defaults(dataset, size),
            federation: FederationConfig {
                participants: default_participants(&partition),
                weighting: Weighting::Uniform,
                quorum: 0.5,
                patience: 10,
                aggregate: AggregateName::Mean,
                trim: 0.1,
                clip: 0.0,
                largest: 100.0,
            },
            faults: FaultsConfig::NONE,
            privacy: PrivacyConfig::NONE,
            partition,
            model: ModelConfig { body: default_body(dataset), noise: 0.0 },
            training: TrainingConfig {
                epochs: 10,
                batch: 50,
                optimizer: OptimizerName::Adam,
                rate: 1e-3,
                momentum: 0.0,
            },
            tuning: TuningConfig { epochs: 10, rate: 1e-3 },
            validation: ValidationConfig { fraction: 0.0 },
            output: OutputConfig { personal_models: true },
            checkpoint: CheckpointConfig::defaults(),
            fedsi: FedsiConfig::calibrated(dataset),
            fedbabu: FedbabuConfig { tune: Tuned::Head },
            mean_field: MeanFieldConfig::published(),
            pfedbayes: PfedbayesConfig { zeta: 10.0 },
            bpfed: BpfedConfig { zeta: 1.0 },
            fedpop: FedpopConfig { steps: 10, discard: 5, step: 1e-4, prior_variance: 1.0, samples: 30 },
        }
    }
}

/// Ten, or all where there are fewer; 0 ("see the data") where the data says how many clients there are.
pub(crate) fn default_participants(partition: &PartitionSpec) -> usize {
    match partition.kind {
        PartitionKind::Natural | PartitionKind::File => 0,
        _ => partition.clients.min(MOST_PARTICIPANTS),
    }
}

/// Participants of a round where nothing else is said.
pub(crate) const MOST_PARTICIPANTS: usize = 10;

/// The paper's networks: an MLP with one hidden layer of 100, and a convolutional network for CIFAR-10.
fn default_body(dataset: DatasetName) -> Vec<LayerSpec> {
    use LayerSpec::{Conv, Flatten, Linear, MaxPool, Relu};
    let conv = |out| Conv(ConvSpec { out, kernel: 5, stride: 1, padding: 0 });
    let pool = || MaxPool(PoolSpec::square(2));
    match dataset {
        DatasetName::Cifar10 => {
            vec![conv(6), Relu, pool(), conv(16), Relu, pool(), Flatten, Linear(120), Relu, Linear(84), Relu]
        }
        DatasetName::Digits | DatasetName::Mnist | DatasetName::FashionMnist | DatasetName::Files => {
            vec![Flatten, Linear(100), Relu]
        }
    }
}
