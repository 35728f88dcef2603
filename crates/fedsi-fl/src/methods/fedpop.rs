//! `FedPop`: a shared body, and samples of a personal head.

use super::{Method, Objective, Participation, Phase, Procedure, Samples, TunedSetting, Uncertainty};
use crate::config::FedpopConfig;
use crate::parameters::Part;

/// The body is a point, shared and averaged. The head z of client i is random with prior `N(0, v)`; the client keeps a
/// chain of its posterior. A round, with n training samples:
///
/// 1. M steps of Langevin dynamics on the head, with the gradient of all data:
///    `z <- z - h/2 grad U(z) + sqrt(h) e`, `U(z) = sum of losses + |z|^2 / (2 v)`; the first ones are discarded.
/// 2. K epochs on the body, on the loss averaged over the heads just kept: a stochastic approximation of maximum
///    likelihood with the heads integrated out.
///
/// The body is uploaded. At the end every client goes on with its chain under the final body, 10,000 steps, and keeps 30
/// heads of the second half, evenly spaced: a prediction is the mean over them. (With `fedpop.final_steps = 0`: over the
/// last 30 heads of its rounds; a client that was never drawn takes them from the prior.)
///
/// Source: Kotelevskii, Vono, Durmus and Moulines, "FedPop: a Bayesian approach for personalised federated learning",
/// NeurIPS 2022. Decided here:
/// - Chains go on from round to round, from the common initial head at first.
/// - M = 10, five discarded, `v = 1`, fixed, as in the public settings for MNIST and CIFAR-10. Those move heads by Adam without
///   noise, so that what is averaged are iterates of an optimiser; here they are Langevin steps, as the publication has them.
/// - The step h and the chain at the end: docs/baselines.md tells how they were chosen, and that the chain mixes.
/// - The population's prior is not learned; the publication can, its public settings for images do not.
/// - The features are computed once for all M steps: the body stands still while the head is sampled.
/// - For regression losses are divided by the noise's variance, so that U is the negative log posterior.
///
/// Cost: `FedPer`'s bytes; the body's step passes through five heads instead of one; at the end 10,000 passes of all data
/// through the head alone.
pub(super) const FEDPOP: Method = Method {
    name: "fedpop",
    title: "FedPop",
    source: "Kotelevskii et al. 2022",
    idea: "a shared body under samples of a personal head",
    evaluated: "the newest global body, averaged over the client's kept samples of its head",
    tuned: [
        TunedSetting { key: "fedpop.step", values: [1e-3, 3e-3, 1e-2] },
        TunedSetting { key: "fedpop.prior_variance", values: [0.1, 1.0, 10.0] },
    ],
    declare: |config| {
        let fedpop = &config.fedpop;
        let (discard, keep, prior_variance) = (fedpop.discard, fedpop.samples, fedpop.prior_variance);
        let objective = Objective::Sample { discard, thin: 1, keep, prior_variance };
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![
                Phase { part: Part::Head, epochs: fedpop.steps, rate: fedpop.step, objective },
                Phase::train(Part::Body, config.training.epochs, config)
                    .with_objective(Objective::OverSamples),
            ],
            personalise: final_chain(fedpop).into_iter().collect(),
            uncertainty: Uncertainty::Samples(Samples { count: keep, prior_variance }),
            ..Procedure::default()
        }
    },
    ..Method::EMPTY
};

/// The chain at the end, under the final body: half of it brings the chain there, the other half fills the store.
fn final_chain(fedpop: &FedpopConfig) -> Option<Phase> {
    let &FedpopConfig { final_steps, step, prior_variance, samples: keep, .. } = fedpop;
    // A config that was not checked yet may keep none.
    let thin = final_steps / 2 / keep.max(1);
    let objective = Objective::Sample { discard: final_steps - keep * thin, thin, keep, prior_variance };
    (final_steps > 0).then_some(Phase { part: Part::Head, epochs: final_steps, rate: step, objective })
}
