//! What a run is told: complete settings as data, their ranges beside them, and layers of settings laid over each other.
//!
//! What the settings mean for a method and a dataset is decided by [`Registry`](crate::Registry): it gives the defaults,
//! resolves layers and checks. Only a [`Checked`](crate::Checked) config runs.

mod aggregation;
mod calibration;
mod checkpoint;
mod error;
mod faults;
mod layers;
mod method_settings;
mod methods;
mod model;
mod partition;
mod privacy;
mod profile;
mod range;
mod renamed;
mod text;
mod training;

pub use aggregation::{AggregateName, FederationConfig, Weighting, WeightingName};
pub use calibration::{CalibrationConfig, NamedTemperature, Temperature};
pub use checkpoint::CheckpointConfig;
pub use error::{ConfigError, hint};
pub use faults::FaultsConfig;
pub use layers::{Overrides, assignment};
pub use method_settings::{DeclaredSetting, MethodSettings, Setting, SettingType};
pub use methods::{
    BpfedConfig, FedbabuConfig, FedpopConfig, FedsiConfig, FinalPrior, LgFedavgConfig, MeanFieldConfig,
    ModesSetting, NamedModes, NamedPrior, PfedbayesConfig, PosteriorName, PriorScale, VarianceAverage,
};
pub use model::ModelConfig;
pub use privacy::{COVERED_FILES, PrivacyConfig, UNCOVERED_FILES};
pub use profile::Profile;
pub use text::{commented, schema};
pub use training::{OptimizerName, TrainingConfig, Tuned, TunedPart, TuningConfig, ValidationConfig};

pub(crate) use aggregation::default_participants;
pub(crate) use error::nearest;
pub(crate) use layers::{keys, merge};

use fedsi_data::{DataSpec, Dataset, PartitionSpec, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use range::whole;

/// Largest number of threads anyone may ask for.
const MAX_THREADS: usize = 1024;

/// A complete description of a run. The same config gives the same bits, whatever the number of threads; with privacy the
/// same but for participants and noise, whose key is not in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What to run; `fedsi methods` lists them.
    pub method: String,
    /// The set of defaults: calibrated or paper (fedsi and fedsi-fac). Keys in this file override it.
    pub profile: Profile,
    /// Every random draw of the run follows from this number, 0 up to 2^63 - 1; with privacy.noise, participants and
    /// noise do not.
    pub seed: u64,
    /// Number of communication rounds, at least 1.
    #[schemars(range(min = 1))]
    pub rounds: usize,
    /// Threads that train clients side by side; 0: one for each core. Changes no result.
    pub threads: usize,
    /// What clients' networks are computed on: cpu, cuda (an NVIDIA GPU), or auto, which takes a GPU where there is one that
    /// works. A GPU's results differ from a CPU's by rounding and, where training draws noise, by other draws.
    pub device: DeviceName,
    /// The training data.
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
    /// Personalising at the end, for the methods that do and, where `part` says so, for all.
    pub tuning: TuningConfig,
    /// How predictions are calibrated.
    pub calibration: CalibrationConfig,
    /// Scores while training.
    pub validation: ValidationConfig,
    /// What a run saves.
    pub output: OutputConfig,
    /// How often a run's state is saved while it goes on, and where clients' state is.
    pub checkpoint: CheckpointConfig,
    /// Settings of the methods fedsi and fedsi-fac.
    pub fedsi: FedsiConfig,
    /// Settings of the method fedbabu.
    pub fedbabu: FedbabuConfig,
    /// Settings of the method lg-fedavg.
    pub lg_fedavg: LgFedavgConfig,
    /// Distributions of the methods pfedbayes and bpfed.
    pub mean_field: MeanFieldConfig,
    /// Settings of the method pfedbayes.
    pub pfedbayes: PfedbayesConfig,
    /// Settings of the method bpfed.
    pub bpfed: BpfedConfig,
    /// Settings of the method fedpop.
    pub fedpop: FedpopConfig,
    /// Settings of a method that the program adds: the keys that it declares.
    #[serde(default, skip_serializing_if = "MethodSettings::is_empty")]
    pub method_settings: MethodSettings,
}

/// What clients' networks are computed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceName {
    /// The cores of this machine.
    #[default]
    Cpu,
    /// An NVIDIA GPU; an error where there is none.
    #[serde(alias = "gpu")]
    Cuda,
    /// A GPU where there is one that works, else the CPU, with a line that says why.
    Auto,
}

/// What a run saves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Whether each client's personal model is saved as clients/ID.safetensors.
    pub personal_models: bool,
}

impl Config {
    /// The method that runs when none is named.
    pub const DEFAULT_METHOD: &'static str = "fedsi";

    /// The dataset that is learned from when none is named.
    pub const DEFAULT_DATASET: &'static str = "digits";

    /// The settings on a dataset that all methods have in common, before a method's own defaults.
    pub(crate) fn for_dataset(method: &str, dataset: &dyn Dataset, size: Size) -> Self {
        let defaults = dataset.defaults(size);
        Self {
            method: method.to_owned(),
            profile: Profile::Calibrated,
            seed: 1,
            rounds: defaults.rounds,
            threads: 0,
            device: DeviceName::Cpu,
            data: DataSpec::defaults(dataset.name(), size),
            federation: FederationConfig::defaults(&defaults.partition),
            faults: FaultsConfig::NONE,
            privacy: PrivacyConfig::NONE,
            partition: defaults.partition,
            model: ModelConfig { body: defaults.body, observation_noise: 0.0 },
            training: TrainingConfig::DEFAULTS,
            tuning: TuningConfig::DEFAULTS,
            calibration: CalibrationConfig::DEFAULTS,
            validation: ValidationConfig { fraction: 0.0 },
            output: OutputConfig { personal_models: true },
            checkpoint: CheckpointConfig::defaults(),
            fedsi: FedsiConfig::calibrated(defaults.subnetwork),
            fedbabu: FedbabuConfig::DEFAULTS,
            lg_fedavg: LgFedavgConfig::DEFAULTS,
            mean_field: MeanFieldConfig::DEFAULTS,
            pfedbayes: PfedbayesConfig::DEFAULTS,
            bpfed: BpfedConfig::DEFAULTS,
            fedpop: FedpopConfig::DEFAULTS,
            method_settings: MethodSettings::default(),
        }
    }

    /// Checks every value that can be checked without the method and the data.
    ///
    /// # Errors
    /// The first value that cannot be used, and what it must be.
    pub(crate) fn check_values(&self) -> Result<(), ConfigError> {
        whole("rounds", self.rounds, 1..=usize::MAX, "a run needs at least 1 round")?;
        whole("threads", self.threads, 0..=MAX_THREADS, "at most 1024 threads")?;
        let most = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
        whole("seed", usize::try_from(self.seed).unwrap_or(usize::MAX), 0..=most, "at most 2^63 - 1")?;
        self.training.check()?;
        self.tuning.check()?;
        self.calibration.check()?;
        self.validation.check()?;
        self.checkpoint.check()?;
        self.model.check()?;
        self.fedsi.check()?;
        self.lg_fedavg.check()?;
        self.mean_field.check()?;
        self.pfedbayes.check()?;
        self.bpfed.check()?;
        self.fedpop.check()?;
        self.faults.check()?;
        self.federation.check()?;
        self.privacy.check(&self.federation)?;
        let clients = partition::check(&self.partition)?;
        self.check_pooled()?;
        match clients {
            Some(clients) => self.participants_of(clients).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Where one client has all data there is nobody else to draw, and nothing to say about who is novel.
    fn check_pooled(&self) -> Result<(), ConfigError> {
        let (key, others) = match (self.partition.pooled, self.partition.pooled_client) {
            (false, false) => return Ok(()),
            (true, true) => {
                let expected = "false beside partition.pooled = true, which leaves no other client";
                return Err(ConfigError::value("partition.pooled_client", true, expected));
            }
            (true, false) => ("partition.pooled", "puts all data into one client"),
            (false, true) => ("partition.pooled_client", "lets one client with all data train alone"),
        };
        let federation = &self.federation;
        if federation.participants > 1 {
            let expected = format!("1 where {key} = true {others}");
            return Err(ConfigError::value("federation.participants", federation.participants, expected));
        }
        if !federation.novel_clients.is_empty() {
            let expected = format!("[] where {key} = true {others}");
            let found = format!("{:?}", federation.novel_clients);
            return Err(ConfigError::value("federation.novel_clients", found, expected));
        }
        Ok(())
    }

    /// The clients, of `clients`, that take no part in training, ascending: those that are named, or all but the last where that
    /// one has everybody's data.
    #[must_use]
    pub fn novel_clients(&self, clients: usize) -> Vec<usize> {
        if self.partition.pooled_client {
            return (0..clients.saturating_sub(1)).collect();
        }
        let mut ids = self.federation.novel_clients.clone();
        ids.sort_unstable();
        ids
    }

    /// How many of `clients` clients take part in a round.
    ///
    /// # Errors
    /// Novel clients that are not there, or all of them; more participants than the others.
    pub fn participants_of(&self, clients: usize) -> Result<usize, ConfigError> {
        if self.partition.pooled_client { Ok(1) } else { self.federation.participants_of(clients) }
    }
}
