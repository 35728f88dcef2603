//! `FedBABU`: body aggregation and body update.

use super::{Method, Participation, Phase, Procedure, TunedSetting, Uncertainty};
use crate::config::Weighting;
use crate::parameters::Part;

/// All clients train the body under one random head that never moves, so that their features stay comparable;
/// the head is tuned only at the end, for F epochs (`fedbabu.tune = "all"` tunes the body with it). Bodies are averaged by
/// samples.
///
/// Source: Oh, Kim and Yun, "FedBABU: toward enhanced representation for federated image classification", ICLR 2022.
pub(super) const FEDBABU: Method = Method {
    name: "fedbabu",
    title: "FedBABU",
    source: "Oh et al. 2022",
    idea: "a shared body trained under a frozen random head; heads are tuned at the end",
    evaluated: "the newest global body after tuning the head",
    tuned: [TunedSetting::TUNING_RATE, TunedSetting::WEIGHT_NOISE],
    declare: |config| Procedure {
        shared: Part::Body,
        kept: Part::Nothing,
        participation: Participation::Sampled,
        weighting: Weighting::Samples,
        local: vec![Phase::train(Part::Body, config.training.epochs, config)],
        personalise: vec![Phase::tune(config.fedbabu.tune.part(), config)],
        uncertainty: Uncertainty::None,
        ..Procedure::default()
    },
    ..Method::EMPTY
};
