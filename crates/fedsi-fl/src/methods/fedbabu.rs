//! `FedBABU`: body aggregation and body update.

use super::{Knob, Method, Phase, Procedure, Uncertainty, Workers};
use crate::part::Part;

/// All clients train the body under one random head that never moves, so that their features stay comparable;
/// the head is tuned only at the end, for F epochs (`fedbabu.tune = "all"` tunes the body with it).
pub(super) const FEDBABU: Method = Method {
    name: "fedbabu",
    title: "FedBABU",
    source: "Oh et al. 2022",
    idea: "a shared body trained under a frozen random head; heads are tuned at the end",
    evaluated: "the newest global body after tuning the head",
    knob: Some(Knob::TUNING_RATE),
    declare: |config| Procedure {
        shared: Part::Body,
        kept: Part::Nothing,
        workers: Workers::Drawn,
        local: vec![Phase::train(Part::Body, config.training.epochs, config)],
        personalise: vec![Phase::tune(config.fedbabu.tune.part(), config)],
        uncertainty: Uncertainty::None,
    },
};
