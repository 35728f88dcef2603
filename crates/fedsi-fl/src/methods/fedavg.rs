//! `FedAvg`: one network for all.

use super::{Method, Phase, Procedure, Uncertainty, Workers};
use crate::part::Part;

/// `w <- mean_i w_i`, where `w_i` is `w` after K local epochs on client i's mean cross-entropy.
pub(super) const FEDAVG: Method = Method {
    name: "fedavg",
    title: "FedAvg",
    source: "McMahan et al. 2017",
    idea: "the average of the clients' networks is everyone's network",
    evaluated: "the newest global network, untuned",
    knob: None,
    declare: |config| Procedure {
        shared: Part::All,
        kept: Part::Nothing,
        workers: Workers::Drawn,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
};
