//! `FedAvg`: one network for all.

use super::{Method, Participation, Phase, Procedure, Uncertainty};
use crate::parameters::Part;

/// `w <- mean_i w_i`, where `w_i` is `w` after K local epochs on client i's mean cross-entropy.
pub(super) const FEDAVG: Method = Method {
    name: "fedavg",
    title: "FedAvg",
    source: "McMahan et al. 2017",
    idea: "the average of the clients' networks is everyone's network",
    evaluated: "the newest global network, untuned",
    tuned: None,
    declare: |config| Procedure {
        shared: Part::All,
        kept: Part::Nothing,
        participation: Participation::Sampled,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
    ..Method::EMPTY
};
