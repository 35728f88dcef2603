//! `FedSI-Fac`: FedSI without correlations.

use super::{Laplace, Method, PosteriorStructure, TunedSetting};

/// [`FedSI`](super::fedsi::FEDSI) with a distribution over every body parameter and none of their correlations:
/// `v_r = 1 / (h_r + 1/g_r)`. It asks what the full covariance of a few parameters is worth. Independence makes
/// it far more unsure at the same prior variance, so it has one of its own.
pub(super) const FEDSI_FAC: Method = Method {
    name: "fedsi-fac",
    title: "FedSI-Fac",
    source: "Chen et al. 2024",
    idea: "FedSI with independent variances of all body parameters instead of a subnetwork's covariance",
    evaluated: "the newest global body, tuned, averaged over independent posteriors of its parameters",
    tuned: [TunedSetting::TUNING_RATE, TunedSetting::WEIGHT_NOISE],
    declare: |config| {
        let laplace = Laplace { structure: PosteriorStructure::Diagonal, ..Laplace::of(config) };
        super::fedsi::declare(config, laplace)
    },
    defaults: super::fedsi::FEDSI.defaults,
    learning_rate: super::fedsi::FEDSI.learning_rate,
    paper: super::fedsi::FEDSI.paper,
    ..Method::EMPTY
};
