//! Local training: no federation at all, the floor that every method must beat.

use super::{Method, Participation, Phase, Procedure};
use crate::parameters::Part;

/// Every client trains its own network, every round; nothing travels.
pub(super) const LOCAL: Method = Method {
    name: "local",
    title: "Local only",
    source: "-",
    idea: "every client trains alone",
    evaluated: "each client's own network",
    declare: |config| Procedure {
        shared: Part::Nothing,
        kept: Part::All,
        participation: Participation::Everyone,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        ..Procedure::default()
    },
    ..Method::EMPTY
};
