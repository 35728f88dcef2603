//! Settings of the server: who takes part in a round, and how updates become one.

use fedsi_data::{PartitionKind, PartitionSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::ConfigError;
use super::range::number;

/// Participants of a round where nothing else is said.
const MAX_PARTICIPANTS: usize = 10;

/// Server and participants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FederationConfig {
    /// Clients drawn for a round, without replacement; with privacy.noise each client is drawn by itself, and this is
    /// their expected number. 0: ten, or all where there are fewer. Novel clients are never drawn.
    pub participants: usize,
    /// Clients that take no part in training nor in choosing prior variance, temperature and tuned settings: a list of ids,
    /// or ids with commas between. At the end each is personalised and scored like a client that joins after training: the
    /// initial personal part, the newest shared part, then the method's own personalisation (tuning.part = "head" or "all"
    /// gives every method some). The scores of a run are over all clients, these among them; in summary.json they have
    /// `novel`. Scales and encodings of your own files are still those of all clients' training rows.
    #[serde(deserialize_with = "client_ids")]
    #[schemars(schema_with = "client_ids_schema")]
    pub novel_clients: Vec<usize>,
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
    /// round's median one and longer than 10% of the norm of the server's values, or where a standard deviation is so many
    /// times the server's. 0: none.
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
            participants: default_participants(partition, 0),
            novel_clients: Vec::new(),
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
        let mut ids = self.novel_clients.clone();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.bad_novel_clients(format!("each client once; {} is there twice", pair[0])));
        }
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

    /// How many of `clients` clients take part in a round, of which novel ones never do.
    pub(super) fn participants_of(&self, clients: usize) -> Result<usize, ConfigError> {
        let wanted = self.participants;
        if let Some(unknown) = self.novel_clients.iter().find(|&&id| id >= clients) {
            let last = clients.saturating_sub(1);
            return Err(self.bad_novel_clients(format!("ids from 0 to {last}; there is no client {unknown}")));
        }
        let novel = self.novel_clients.len();
        let training = clients.saturating_sub(novel);
        if novel > 0 && training == 0 {
            return Err(self.bad_novel_clients("at least one client that trains; all are novel".to_owned()));
        }
        if wanted > training {
            let others =
                if novel == 0 { String::new() } else { format!(" that are not novel, of {clients}") };
            let expected =
                format!("there are {training} clients{others}; ask for at most {training} participants");
            return Err(ConfigError::value("federation.participants", wanted, expected));
        }
        Ok(if wanted == 0 { training.min(MAX_PARTICIPANTS) } else { wanted })
    }

    fn bad_novel_clients(&self, expected: String) -> ConfigError {
        ConfigError::value("federation.novel_clients", format!("{:?}", self.novel_clients), expected)
    }
}

/// Ten, or all that are not novel where there are fewer; one where one client has all data; 0 ("see the data") where the data
/// says how many clients there are.
pub(crate) fn default_participants(partition: &PartitionSpec, novel: usize) -> usize {
    match partition.kind {
        _ if partition.pooled || partition.pooled_client => 1,
        PartitionKind::Natural | PartitionKind::File => 0,
        _ => partition.clients.saturating_sub(novel).min(MAX_PARTICIPANTS),
    }
}

/// A list of client ids, one id, or one text with commas between ids.
fn client_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of client ids, or ids with commas between")]
    enum Ids {
        List(Vec<usize>),
        One(usize),
        Text(String),
    }
    match Ids::deserialize(deserializer)? {
        Ids::List(ids) => Ok(ids),
        Ids::One(id) => Ok(vec![id]),
        Ids::Text(text) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            let ids = words.map(|word| {
                word.parse().map_err(|_| {
                    D::Error::custom(format!("expected client ids with commas between, found \"{word}\""))
                })
            });
            ids.collect()
        }
    }
}

fn client_ids_schema(_: &mut SchemaGenerator) -> Schema {
    let id = json_schema!({ "type": "integer", "minimum": 0 });
    json_schema!({ "anyOf": [{ "type": "array", "items": id }, id, { "type": "string" }] })
}
