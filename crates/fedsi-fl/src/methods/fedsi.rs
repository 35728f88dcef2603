//! `FedSI`: federated subnetwork inference.

use super::{
    Laplace, Method, Modes, Objective, Participation, Phase, Prior, Procedure, TunedSetting, Uncertainty,
};
use fedsi_nn::LayerSpec;

use crate::config::{Config, FedsiConfig, PosteriorName, TrainingConfig};
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
///
/// With `fedsi.modes` above 1 there are as many bodies, each under a random head of its own, that are trained in turn; a
/// client personalises each, and its predictions are their average.
///
/// Source: Chen, Liu, Wu, Fan and Cao, "FedSI: federated subnetwork inference for efficient uncertainty quantification",
/// 2024.
pub(super) const FEDSI: Method = Method {
    name: "fedsi",
    title: "FedSI",
    source: "Chen et al. 2024",
    idea: "FedBABU's shared body as a Gaussian; a full-covariance posterior over a small subnetwork",
    evaluated: "the newest global body, tuned, averaged over the posterior of its subnetwork",
    tuned: [TunedSetting::TUNING_RATE, TunedSetting::WEIGHT_NOISE],
    declare: |config| declare(config, Laplace::of(config)),
    defaults: |config, dataset| config.training.weight_noise = dataset.weight_noise,
    learning_rate: Some(learning_rate),
    paper: Some(|config| {
        config.fedsi = FedsiConfig::paper(config.fedsi.subnetwork);
        // The paper names one learning rate, and tunes heads "on the local dataset": with the same.
        (config.training.learning_rate, config.tuning.learning_rate) = (1e-2, 1e-2);
        config.training.weight_noise = 0.0;
    }),
    ..Method::EMPTY
};

/// The rate of short training under weight noise: linear bodies of the paper's size then train twice as fast.
const LARGER_RATE: f64 = 2e-3;

/// Most rounds of a mode at the larger rate: after 400 the accuracy falls.
const ROUNDS_AT_LARGER_RATE: usize = 400;

/// The learning rate that suits these rounds, this noise and this body.
fn learning_rate(config: &Config) -> f64 {
    let rounds_of_mode =
        config.rounds / config.fedsi.modes.count(config.rounds, config.training.weight_noise).max(1);
    let convolutions = config.model.body.iter().any(|layer| matches!(layer, LayerSpec::Conv(_)));
    let noise = config.training.weight_noise > 0.0;
    if noise && !convolutions && rounds_of_mode < ROUNDS_AT_LARGER_RATE {
        LARGER_RATE
    } else {
        TrainingConfig::DEFAULTS.learning_rate
    }
}

/// The method with such posteriors, or with points where the settings say so.
pub(super) fn declare(config: &Config, laplace: Laplace) -> Procedure {
    let (prior, uncertainty) = match config.fedsi.posterior {
        PosteriorName::None => (Prior::Isotropic(laplace.alpha), Uncertainty::None),
        PosteriorName::Subnetwork | PosteriorName::Whole => {
            (Prior::Server(config.fedsi.prior_scale), Uncertainty::Laplace(laplace))
        }
    };
    let objective = |weight_noise| Objective::Point { prior, weight_noise };
    let count = config.fedsi.modes.count(config.rounds, config.training.weight_noise);
    let common_rounds = if count > 1 { (config.fedsi.common_share * config.rounds as f64) as u64 } else { 0 };
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
        uncertainty,
        modes: Modes { count, common_rounds },
        ..Procedure::default()
    }
}
