//! From a config to how the server averages, which updates it uses, and what privacy it accounts for.

use fedsi_random::Streams;

use super::admission::Admission;
use super::aggregate::Aggregation;
use super::privacy::{Accountant, Mechanism};
use super::robust::RobustEstimator;
use crate::config::{AggregateName, Config, VarianceAverage};
use crate::methods::{Procedure, Uncertainty};
use crate::parameters::Part;

/// How updates become one.
pub(super) fn aggregation(config: &Config, procedure: &Procedure, streams: Streams) -> Aggregation {
    let (federation, privacy) = (&config.federation, config.privacy);
    let estimator = match federation.aggregate {
        AggregateName::Mean => RobustEstimator::Mean,
        AggregateName::Median => RobustEstimator::Median,
        AggregateName::TrimmedMean => RobustEstimator::TrimmedMean(federation.trim),
    };
    let (variance_average, unselected, posterior_interval) = match &procedure.uncertainty {
        Uncertainty::Laplace(laplace) => {
            (laplace.variance_average, laplace.alpha, laplace.posterior_interval)
        }
        // Of all parameters, so that none is unselected.
        Uncertainty::MeanField(_) | Uncertainty::None | Uncertainty::Samples(_) => {
            (VarianceAverage::Deviation, 0.0, 1)
        }
    };
    Aggregation {
        weighting: federation.weighting,
        estimator,
        clip: federation.clip,
        privacy: privacy.is_on().then_some(Mechanism { clip: privacy.clip, noise: privacy.noise, streams }),
        ..Aggregation::mean(variance_average, unselected, posterior_interval)
    }
}

/// Which updates are used.
pub(super) const fn admission(config: &Config, compare: bool) -> Admission {
    let federation = &config.federation;
    Admission {
        quorum: federation.quorum,
        patience: federation.patience,
        outlier_factor: federation.outlier_factor,
        compare,
    }
}

/// What counts epsilon; nothing where there is no noise, or nothing to hide.
pub(super) fn accountant(config: &Config, shared: Part, sampled: f64) -> Option<Accountant> {
    let privacy = config.privacy;
    (privacy.is_on() && shared != Part::Nothing)
        .then(|| Accountant::new(sampled, privacy.noise, privacy.delta))
}
