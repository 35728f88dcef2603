//! `LG-FedAvg`: local representations, a global head.

use super::{Method, Participation, Phase, Procedure, Uncertainty};
use crate::parameters::Part;

/// The reverse of `FedPer`: the head is averaged, each client keeps its body. Both train together for K epochs.
pub(super) const LG_FEDAVG: Method = Method {
    name: "lg-fedavg",
    title: "LG-FedAvg",
    source: "Liang et al. 2020",
    idea: "personal bodies under a shared head",
    evaluated: "the client's kept body with the newest global head",
    tuned: None,
    declare: |config| Procedure {
        shared: Part::Head,
        kept: Part::Body,
        participation: Participation::Sampled,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
    ..Method::EMPTY
};
