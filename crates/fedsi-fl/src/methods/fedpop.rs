//! `FedPop`: a shared body, and samples of a personal head.

use super::{Method, Objective, Participation, Phase, Procedure, Samples, TunedSetting, Uncertainty};
use crate::parameters::Part;

/// The body is a point, shared and averaged. The head z of client i is random with prior `N(0, v)`; the client keeps a
/// chain of its posterior. A round, with n training samples:
///
/// 1. M steps of Langevin dynamics on the head, with the gradient of all data:
///    `z <- z - h/2 grad U(z) + sqrt(h) e`, `U(z) = sum of losses + |z|^2 / (2 v)`; the first ones are discarded.
/// 2. K epochs on the body, on the loss averaged over the heads just kept: a stochastic approximation of maximum
///    likelihood with the heads integrated out.
///
/// The body is uploaded. A prediction is the mean over the last 30 heads kept; a client that was never drawn takes them
/// from the prior.
///
/// Source: Kotelevskii, Vono, Durmus and Moulines, "FedPop: a Bayesian approach for personalised federated learning",
/// NeurIPS 2022. Decided here:
/// - Chains go on from round to round, from the common initial head at first.
/// - M = 10, five discarded, `v = 1`; the step h as docs/baselines.md tells.
/// - The features are computed once for all M steps: the body stands still while the head is sampled.
/// - For regression losses are divided by the noise's variance, so that U is the negative log posterior.
///
/// Cost: `FedPer`'s bytes; the body's step passes through five heads instead of one.
pub(super) const FEDPOP: Method = Method {
    name: "fedpop",
    title: "FedPop",
    source: "Kotelevskii et al. 2022",
    idea: "a shared body under samples of a personal head",
    evaluated: "the newest global body, averaged over the client's kept samples of its head",
    tuned: Some(TunedSetting { key: "fedpop.step", values: [3e-5, 1e-4, 3e-4] }),
    declare: |config| {
        let fedpop = &config.fedpop;
        let (discard, keep, prior_variance) = (fedpop.discard, fedpop.samples, fedpop.prior_variance);
        let objective = Objective::Sample { discard, keep, prior_variance };
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![
                Phase { part: Part::Head, epochs: fedpop.steps, rate: fedpop.step, objective },
                Phase::train(Part::Body, config.training.epochs, config)
                    .with_objective(Objective::OverSamples),
            ],
            personalise: vec![],
            uncertainty: Uncertainty::Samples(Samples { count: keep, prior_variance }),
        }
    },
    ..Method::EMPTY
};
