//! `FedAvg`: one network for all.

use super::{Method, Participation, Phase, Procedure};
use crate::config::Weighting;
use crate::parameters::Part;

/// `w <- sum_i n_i w_i / sum_i n_i`, where `w_i` is `w` after K local epochs on client i's mean cross-entropy over its `n_i`
/// samples.
///
/// Source: `McMahan`, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of deep networks from
/// decentralized data", AISTATS 2017.
pub(super) const FEDAVG: Method = Method {
    name: "fedavg",
    title: "FedAvg",
    source: "McMahan et al. 2017",
    idea: "the average of the clients' networks is everyone's network",
    evaluated: "the newest global network, untuned",
    declare: |config| Procedure {
        shared: Part::All,
        kept: Part::Nothing,
        participation: Participation::Sampled,
        weighting: Weighting::Samples,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        ..Procedure::default()
    },
    ..Method::EMPTY
};
