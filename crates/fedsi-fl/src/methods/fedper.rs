//! `FedPer`: a shared body under personal heads, trained together.

use super::{Method, Participation, Phase, Procedure};
use crate::config::Weighting;
use crate::parameters::Part;

/// The body is averaged, by samples; each client keeps its head. Both train together for K epochs.
///
/// Source: Arivazhagan, Aggarwal, Singh and Choudhary, "Federated learning with personalization layers", arXiv 1912.00818,
/// 2019.
pub(super) const FEDPER: Method = Method {
    name: "fedper",
    title: "FedPer",
    source: "Arivazhagan et al. 2019",
    idea: "a shared body, personal heads, trained together",
    evaluated: "the newest global body with the client's kept head",
    declare: |config| Procedure {
        shared: Part::Body,
        kept: Part::Head,
        participation: Participation::Sampled,
        weighting: Weighting::Samples,
        local: vec![Phase::train(Part::All, config.training.epochs, config)],
        ..Procedure::default()
    },
    ..Method::EMPTY
};
