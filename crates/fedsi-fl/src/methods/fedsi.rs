//! `FedSI`: federated subnetwork inference.

use super::{Laplace, Method, Objective, Participation, Phase, Prior, Procedure, TunedSetting, Uncertainty};
use crate::config::{Config, FedsiConfig};
use crate::parameters::Part;

/// The server holds a Gaussian over the body, mean `mu` and variances `g`. One round, on client i with n samples:
///
/// 1. MAP: `theta = argmin mean cross-entropy + 1/(2n) sum_r (theta_r - mu_r)^2 / g_r`, from `mu`, under a random
///    head that is the same for all and never moves.
/// 2. Curvature: `h = diag(sum_n J_n' Lambda_n J_n)`; marginal variances `v = 1 / (h + 1/g)`.
/// 3. Subnetwork: the S parameters that `fedsi.rule` selects; in the paper the largest `v`, by default at random.
/// 4. Posterior: precision `J_S' Lambda J_S + diag(1/g_S)`, with its full covariance.
/// 5. Upload: theta, the selected indices, their marginal variances. Everything else counts as a point.
///
/// Steps 2 to 5 may be taken in every `fedsi.posterior_interval` rounds only; in between theta alone is sent.
///
/// The server averages means and variances; what nobody selected has variance `alpha` again. At the end a client
/// tunes for F epochs, computes a posterior around its own model, and predicts with the linearised network:
/// outputs `N(f, J_S P^-1 J_S')`.
pub(super) const FEDSI: Method = Method {
    name: "fedsi",
    title: "FedSI",
    source: "Chen et al. 2024",
    idea: "FedBABU's shared body as a Gaussian; a full-covariance posterior over a small subnetwork",
    evaluated: "the newest global body, tuned, averaged over the posterior of its subnetwork",
    tuned: Some(TunedSetting::TUNING_RATE),
    declare: |config| declare(config, Laplace::of(config)),
    defaults: |config, dataset| config.training.weight_noise = dataset.weight_noise,
    paper: Some(|config| {
        config.fedsi = FedsiConfig::paper(config.fedsi.subnetwork);
        (config.training.learning_rate, config.training.weight_noise) = (1e-2, 0.0);
    }),
    ..Method::EMPTY
};

/// The method with such posteriors.
pub(super) fn declare(config: &Config, laplace: Laplace) -> Procedure {
    let objective = |weight_noise| Objective::Point { prior: Prior::Server, weight_noise };
    Procedure {
        shared: Part::Body,
        kept: Part::Nothing,
        participation: Participation::Sampled,
        local: vec![
            Phase::train(Part::Body, config.training.epochs, config)
                .with_objective(objective(config.training.weight_noise)),
        ],
        // The body, where it is tuned, around the server's mean; the head has no prior.
        personalise: vec![Phase::tune(config.fedsi.tune.part(), config).with_objective(objective(0.0))],
        uncertainty: Uncertainty::Laplace(laplace),
    }
}
