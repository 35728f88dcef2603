//! Settings of the server: who takes part in a round, and how updates become one.

use fedsi_data::{PartitionKind, PartitionSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::number;

/// Participants of a round where nothing else is said.
const MAX_PARTICIPANTS: usize = 10;

/// Server and participants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FederationConfig {
    /// Clients drawn for a round, without replacement; with privacy.noise each client is drawn by itself, and this is
    /// their expected number. 0: ten, or all where there are fewer.
    pub participants: usize,
    /// How much a participant counts in the average: uniform, samples (in proportion to its training data), or method: as
    /// the method's publication has it (fedavg, fedavg-ft, fedper, fedbabu, lg-fedavg: samples; the others: uniform), and
    /// uniform with privacy.noise and where aggregate is not the mean.
    pub weighting: WeightingName,
    /// Share of a round's participants, above 0 and at most 1, that must return a usable update. Below it the server
    /// keeps what it has: the round is skipped where clients were silent, late or sent damaged messages, and the run
    /// stops where their training diverged. Not with privacy.noise: no round is skipped then.
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
    pub outlier_factor: f64,
}

/// How much a participant counts in the average, as a config says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WeightingName {
    /// As the method's publication has it; all the same with privacy and robust aggregates.
    Method,
    /// All the same.
    Uniform,
    /// In proportion to its training samples.
    Samples,
}

/// How much a participant counts in the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// All the same.
    Uniform,
    /// In proportion to its training samples.
    Samples,
}

/// How participants' updates become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AggregateName {
    /// The (weighted) mean.
    Mean,
    /// The median of each parameter.
    Median,
    /// The mean of each parameter without the lowest and highest values.
    TrimmedMean,
}

impl AggregateName {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::TrimmedMean => "trimmed-mean",
        }
    }
}

impl FederationConfig {
    pub(super) fn defaults(partition: &PartitionSpec) -> Self {
        Self {
            participants: default_participants(partition),
            weighting: WeightingName::Method,
            quorum: 0.5,
            patience: 10,
            aggregate: AggregateName::Mean,
            trim: 0.1,
            clip: 0.0,
            outlier_factor: 100.0,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let quorum = "a share above 0 and at most 1";
        number("federation.quorum", self.quorum, |x| x > 0.0 && x <= 1.0, quorum)?;
        let trim = "a share from 0 up to, not including, 0.5";
        number("federation.trim", self.trim, |x| (0.0..0.5).contains(&x), trim)?;
        number("federation.clip", self.clip, |x| x >= 0.0, "a finite number, 0 (none) or above")?;
        let factor = "0 (none), or at least 1";
        number("federation.outlier_factor", self.outlier_factor, |x| x == 0.0 || x >= 1.0, factor)?;
        if self.weighting == WeightingName::Samples && self.aggregate != AggregateName::Mean {
            let aggregate = self.aggregate.as_str();
            let expected =
                format!("federation.aggregate = \"{aggregate}\" counts all participants alike; use uniform");
            return Err(ConfigError::value("federation.weighting", "samples", expected));
        }
        Ok(())
    }

    /// How many of `clients` clients take part in a round.
    pub(super) fn participants_of(&self, clients: usize) -> Result<usize, ConfigError> {
        let wanted = self.participants;
        if wanted > clients {
            let expected = format!("there are {clients} clients; ask for at most {clients} participants");
            return Err(ConfigError::value("federation.participants", wanted, expected));
        }
        Ok(if wanted == 0 { clients.min(MAX_PARTICIPANTS) } else { wanted })
    }
}

/// Ten, or all where there are fewer; 0 ("see the data") where the data says how many clients there are.
pub(crate) fn default_participants(partition: &PartitionSpec) -> usize {
    match partition.kind {
        PartitionKind::Natural | PartitionKind::File => 0,
        _ => partition.clients.min(MAX_PARTICIPANTS),
    }
}
