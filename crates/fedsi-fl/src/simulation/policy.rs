//! From a config to how the server averages, what it believes, and what it counts.

use fedsi_random::Streams;

use crate::Part;
use crate::admission::Admission;
use crate::aggregate::{Aggregation, SpreadAverage};
use crate::config::{AggregateName, Config};
use crate::privacy::{Accountant, Mechanism};
use crate::robust::Centre;

/// How updates become one.
pub(super) fn aggregation(
    config: &Config,
    streams: Streams,
    spread: SpreadAverage,
    unselected: f64,
    every: u64,
) -> Aggregation {
    let (federation, privacy) = (&config.federation, config.privacy);
    let centre = match federation.aggregate {
        AggregateName::Mean => Centre::Mean,
        AggregateName::Median => Centre::Median,
        AggregateName::TrimmedMean => Centre::TrimmedMean(federation.trim),
    };
    Aggregation {
        weighting: federation.weighting,
        centre,
        clip: federation.clip,
        privacy: privacy.is_on().then_some(Mechanism { clip: privacy.clip, noise: privacy.noise, streams }),
        ..Aggregation::mean(spread, unselected, every)
    }
}

/// Which updates are used.
pub(super) fn admission(config: &Config) -> Admission {
    let federation = &config.federation;
    Admission {
        quorum: federation.quorum,
        patience: federation.patience,
        largest: federation.largest,
        compare: !config.privacy.is_on(),
    }
}

/// What counts epsilon; nobody where there is no noise, or nothing to hide.
pub(super) fn accountant(config: &Config, shared: Part, sampled: f64) -> Option<Accountant> {
    let privacy = config.privacy;
    (privacy.is_on() && shared != Part::Nothing)
        .then(|| Accountant::new(sampled, privacy.noise, privacy.delta))
}
