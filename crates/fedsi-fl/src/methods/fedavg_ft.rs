//! `FedAvg` with fine-tuning: the simplest personalisation, and a strong one.

use super::{Method, Phase, Procedure, TunedSetting};
use crate::parameters::Part;

/// [`FedAvg`](super::fedavg::FEDAVG), then F epochs over the whole network on each client.
pub(super) const FEDAVG_FT: Method = Method {
    name: "fedavg-ft",
    title: "FedAvg-FT",
    source: "McMahan et al. 2017, fine-tuned",
    idea: "the global network, tuned by each client at the end",
    evaluated: "the newest global network after tuning all of it",
    tuned: [TunedSetting::TUNING_RATE, TunedSetting::WEIGHT_NOISE],
    declare: |config| Procedure {
        personalise: vec![Phase::tune(Part::All, config)],
        ..(super::fedavg::FEDAVG.declare)(config)
    },
    ..Method::EMPTY
};
