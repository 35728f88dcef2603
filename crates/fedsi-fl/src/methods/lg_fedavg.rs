//! `LG-FedAvg`: local representations, a global head.

use super::{Method, Participation, Phase, Procedure, TunedSetting, WarmStart};
use crate::config::{Config, Weighting};
use crate::parameters::Part;

/// The reverse of `FedPer`: the head is averaged, by samples, and each client keeps its body. Both train together for K
/// epochs.
///
/// It starts from a network that `FedAvg` has trained, as published: the first `lg_fedavg.warm_start` of the rounds are
/// `FedAvg`'s, so that the budget is that of every method. A client that has not taken part since then has that
/// network's body.
///
/// Source: Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov and Morency, "Think locally, act globally: federated
/// learning with local and global representations", NeurIPS Workshop on Federated Learning, 2020.
///
/// Cost: `FedAvg`'s bytes in the first stage, the head's in the second; a client's first download of the second stage is
/// the whole network.
pub(super) const LG_FEDAVG: Method = Method {
    name: "lg-fedavg",
    title: "LG-FedAvg",
    source: "Liang et al. 2020",
    idea: "personal bodies under a shared head, started from FedAvg's network",
    evaluated: "the client's kept body with the newest global head",
    tuned: [
        TunedSetting { key: "lg_fedavg.warm_start", values: [0.5, 0.75, 0.9] },
        TunedSetting::WEIGHT_NOISE,
    ],
    declare: |config| Procedure {
        shared: Part::Head,
        kept: Part::Body,
        participation: Participation::Sampled,
        weighting: Weighting::Samples,
        warm_start: warm_start(config),
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        ..Procedure::default()
    },
    ..Method::EMPTY
};

/// `FedAvg`'s share of the rounds, rounded down: a run of one round has none.
fn warm_start(config: &Config) -> Option<WarmStart> {
    let of = config.rounds as u64;
    let rounds = (config.lg_fedavg.warm_start * config.rounds as f64) as u64;
    (rounds > 0).then_some(WarmStart { rounds, of })
}
