//! Local training: no federation at all, the floor that every method must beat.

use super::{Method, Phase, Procedure, Uncertainty, Workers};
use crate::part::Part;

/// Every client trains its own network, every round; nothing travels.
pub(super) const LOCAL: Method = Method {
    name: "local",
    title: "Local only",
    source: "-",
    idea: "every client trains alone",
    evaluated: "each client's own network",
    knob: None,
    declare: |config| Procedure {
        shared: Part::Nothing,
        kept: Part::All,
        workers: Workers::Everyone,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
};
