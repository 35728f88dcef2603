//! `FedSI`: federated subnetwork inference.

use super::{Knob, Laplace, Method, Objective, Phase, Prior, Procedure, Uncertainty, Workers};
use crate::infer::Structure;
use crate::part::Part;

/// The server holds a Gaussian over the body, mean `mu` and variances `g`. One round, on client i with n samples:
///
/// 1. MAP: `theta = argmin mean cross-entropy + 1/(2n) sum_r (theta_r - mu_r)^2 / g_r`, from `mu`, under a random
///    head that is the same for all and never moves.
/// 2. Curvature: `h = diag(sum_n J_n' Lambda_n J_n)`; marginal variances `v = 1 / (h + 1/g)`.
/// 3. Subnetwork: the S parameters that `fedsi.rule` chooses; in the paper the largest `v`, by default at random.
/// 4. Posterior: precision `J_S' Lambda J_S + diag(1/g_S)`, with its whole covariance.
/// 5. Upload: theta, the chosen indices, their marginal variances. Everything else counts as a point.
///
/// Steps 2 to 5 may be taken in every `fedsi.every` rounds only; in between theta alone is sent.
///
/// The server averages means and spreads; what nobody chose has variance `alpha` again. At the end a client
/// tunes for F epochs, computes a posterior around its own model, and predicts with the linearised network:
/// outputs `N(f, J_S P^-1 J_S')`.
pub(super) const FEDSI: Method = Method {
    name: "fedsi",
    title: "FedSI",
    source: "Chen et al. 2024",
    idea: "FedBABU's shared body as a Gaussian; a full-covariance posterior over a small subnetwork",
    evaluated: "the newest global body, tuned, averaged over the posterior of its subnetwork",
    knob: Some(Knob::TUNING_RATE),
    declare: |config| {
        let settings = &config.fedsi;
        let rule = settings.rule.clone();
        Procedure {
            shared: Part::Body,
            kept: Part::Nothing,
            workers: Workers::Drawn,
            local: vec![
                Phase::train(Part::Body, config.training.epochs, config)
                    .towards(Objective::Point { prior: Prior::Server, noise: settings.noise }),
            ],
            // The body, where it is tuned, around the server's mean; the head has no prior.
            personalise: vec![
                Phase::tune(settings.tune.part(), config)
                    .towards(Objective::Point { prior: Prior::Server, noise: 0.0 }),
            ],
            uncertainty: Uncertainty::Laplace(Laplace {
                structure: Structure::Subnetwork { rule, share: settings.subnetwork },
                alpha: settings.alpha,
                spread: settings.spread,
                every: settings.every,
                tolerance: settings.tolerance,
                round_tolerance: settings.round_tolerance,
                last_prior: settings.prior_variance,
                predictive: settings.predictive,
                draws: settings.draws,
            }),
        }
    },
};
