//! `FedAvg` with fine-tuning: the simplest personalisation, and a strong one.

use super::{Knob, Method, Phase, Procedure};
use crate::part::Part;

/// [`FedAvg`](super::fedavg::FEDAVG), then F epochs over the whole network on each client.
pub(super) const FEDAVG_FT: Method = Method {
    name: "fedavg-ft",
    title: "FedAvg-FT",
    source: "McMahan et al. 2017; fine-tuned as in Collins et al. 2021",
    idea: "the global network, tuned by each client at the end",
    evaluated: "the newest global network after tuning all of it",
    knob: Some(Knob::TUNING_RATE),
    declare: |config| Procedure {
        personalise: vec![Phase::tune(Part::All, config)],
        ..(super::fedavg::FEDAVG.declare)(config)
    },
};
