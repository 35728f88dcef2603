//! `BPFed`: a shared distribution over the body, a personal one over the head.

use super::{
    MeanField, Method, Objective, Participation, Phase, Procedure, Reference, TunedSetting, Uncertainty,
};
use crate::parameters::Part;

/// Every parameter is an independent normal, `N(m, s^2)` with `s = ln(1 + e^rho)`. A round on client i with n training
/// samples starts at p: the server's distribution over the body, and the one over the head that the client kept. It
/// minimises
///
/// `E_q[mean loss] + zeta/n KL(q || p)`
///
/// with one draw a step. So the body is held to last round's global body, the head to the client's own last one: learning
/// goes on from round to round as continual learning does from task to task. The body's distribution is uploaded, and the
/// server averages means and standard deviations; the head's is kept. A prediction is the mean over 30 draws.
///
/// Source: Chen, Liu, Cao and Zhang, "Bayesian personalized federated learning with shared and personalized uncertainty
/// representations", arXiv 2309.15499, 2023. Decided here:
/// - The draws have their full noise, and a linear layer draws outputs instead of weights, as for pFedBayes.
/// - Body and head train together, K epochs in all.
/// - Before its first round a client's head is the common initial one.
/// - `zeta`: docs/baselines.md tells how it was chosen.
///
/// Cost: twice `FedPer`'s bytes each way; a step trains two values a parameter.
pub(super) const BPFED: Method = Method {
    name: "bpfed",
    title: "BPFed",
    source: "Chen et al. 2023",
    idea: "a normal for each parameter: the body's shared, the head's personal, both held to their last round",
    evaluated: "the newest global body's distribution with the client's own head's, averaged over draws",
    tuned: [TunedSetting { key: "bpfed.zeta", values: [0.1, 1.0, 10.0] }, TunedSetting::MEAN_FIELD_NOISE],
    declare: |config| {
        let objective = Objective::Variational { reference: Reference::Start, weight: config.bpfed.zeta };
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![Phase::train(Part::All, config.training.epochs, config).with_objective(objective)],
            uncertainty: Uncertainty::MeanField(MeanField::of(config)),
            ..Procedure::default()
        }
    },
    ..Method::EMPTY
};
