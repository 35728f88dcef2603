//! `LG-FedAvg`: local representations, a global head.

use super::{Method, Phase, Procedure, Uncertainty, Workers};
use crate::part::Part;

/// The reverse of `FedPer`: the head is averaged, each client keeps its body. Both train together for K epochs.
pub(super) const LG_FEDAVG: Method = Method {
    name: "lg-fedavg",
    title: "LG-FedAvg",
    source: "Liang et al. 2020",
    idea: "personal bodies under a shared head",
    evaluated: "the client's kept body with the newest global head",
    knob: None,
    declare: |config| Procedure {
        shared: Part::Head,
        kept: Part::Body,
        workers: Workers::Drawn,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        personalise: vec![],
        uncertainty: Uncertainty::None,
    },
};
