//! `FedRep`: a shared body under personal heads, trained in turn.

use super::{Method, Participation, Phase, Procedure, TunedSetting, Uncertainty};
use crate::parameters::Part;

/// Like `FedPer`, but a round first fits the head to the body it received (floor(K/2) epochs), then the body to
/// that head (the rest). The paper gives the head its own, larger budget; here all methods have K in all. At
/// the end each client tunes its head for F epochs on the newest body. Bodies are averaged uniformly, as the publication
/// has it.
///
/// Source: Collins, Hassani, Mokhtari and Shakkottai, "Exploiting shared representations for personalized federated
/// learning", ICML 2021.
pub(super) const FEDREP: Method = Method {
    name: "fedrep",
    title: "FedRep",
    source: "Collins et al. 2021",
    idea: "a shared body, personal heads, trained in turn",
    evaluated: "the newest global body with the client's kept head, tuned",
    tuned: [TunedSetting::TUNING_RATE, TunedSetting::WEIGHT_NOISE],
    declare: |config| {
        let head = config.training.epochs / 2;
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![
                Phase::train(Part::Head, head, config),
                Phase::train(Part::Body, config.training.epochs - head, config),
            ],
            personalise: vec![Phase::tune(Part::Head, config)],
            uncertainty: Uncertainty::None,
            ..Procedure::default()
        }
    },
    ..Method::EMPTY
};
