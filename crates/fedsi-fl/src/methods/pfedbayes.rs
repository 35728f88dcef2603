//! pFedBayes: a personal distribution and a global one that draw each other near.

use super::{
    MeanField, Method, Objective, Participation, Phase, Procedure, Reference, TunedSetting, Uncertainty,
};
use crate::parameters::Part;

/// Every parameter is an independent normal, `N(m, s^2)` with `s = ln(1 + e^rho)`. Client i keeps its own distribution q
/// and receives the server's, w. In a round, with n training samples:
///
/// 1. in each step q moves down `E_q[mean loss] + zeta/n KL(q || w)`, with one draw of the parameters;
/// 2. after every `pfedbayes.inner_steps` of them w, the client's copy, moves one step down `KL(q || w)`.
///
/// w is uploaded; the server averages means and standard deviations. q stays, and predicts: the mean over 30 draws.
///
/// Source: Zhang, Li, Li, Guo and Shao, "Personalized federated learning via variational Bayesian inference", ICML 2022.
/// Decided here, where it is silent or its public code differs:
/// - The draws have their full noise. (The code scales it by a thousandth, and is then deterministic.)
/// - A linear layer draws outputs, not weights (local reparameterisation): the same objective, with less noise in its
///   gradient.
/// - In its first round a client starts from the server's distribution; in later ones from its own.
/// - The personal distribution is evaluated, never the broadcast one.
/// - Five steps on q for each on w, as in its code. There they are on one batch, five times the work of a round; here each is
///   on the next, so that a round has K epochs as for every method, and w moves a fifth as often.
/// - `zeta = 10` as published; learning rate `training.learning_rate` for both steps (the paper's is a tenth of our default).
///
/// Cost: twice the bytes of `FedAvg` each way; a step trains four values a parameter.
pub(super) const PFEDBAYES: Method = Method {
    name: "pfedbayes",
    title: "pFedBayes",
    source: "Zhang et al. 2022",
    idea: "a normal for each parameter, personal and global, each held to the other",
    evaluated: "the client's own distribution, averaged over draws",
    tuned: [TunedSetting { key: "pfedbayes.zeta", values: [1.0, 3.0, 10.0] }, TunedSetting::MEAN_FIELD_NOISE],
    declare: |config| {
        let reference = Reference::Server { inner_steps: config.pfedbayes.inner_steps };
        let objective = Objective::Variational { reference, weight: config.pfedbayes.zeta };
        Procedure {
            shared: Part::All,
            kept: Part::All,
            participation: Participation::Sampled,
            local: vec![Phase::train(Part::All, config.training.epochs, config).with_objective(objective)],
            uncertainty: Uncertainty::MeanField(MeanField::of(config)),
            ..Procedure::default()
        }
    },
    ..Method::EMPTY
};
