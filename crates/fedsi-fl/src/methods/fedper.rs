//! `FedPer`: a shared body under personal heads, trained together.

use super::{Method, Participation, Phase, Procedure, Uncertainty};
use crate::parameters::Part;

/// The body is averaged; each client keeps its head. Both train together for K epochs.
pub(super) const FEDPER: Method = Method {
    name: "fedper",
    title: "FedPer",
    source: "Arivazhagan et al. 2019",
    idea: "a shared body, personal heads, trained together",
    evaluated: "the newest global body with the client's kept head",
    tuned: None,
    declare: |config| Procedure {
        shared: Part::Body,
        kept: Part::Head,
        participation: Participation::Sampled,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
    ..Method::EMPTY
};
