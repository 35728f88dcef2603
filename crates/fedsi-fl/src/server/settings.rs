//! From a config to how the server averages, which updates it uses, and what privacy it accounts for.

use super::Choices;
use super::admission::Admission;
use super::aggregate::Aggregation;
use super::calibration::calibration_round;
use super::privacy::{Accountant, Mechanism, Privacy};
use super::robust::RobustEstimator;
use crate::config::{AggregateName, Config, Temperature, VarianceAverage, Weighting, WeightingName};
use crate::methods::{Participation, Procedure, Uncertainty};
use crate::parameters::Part;

/// How updates become one.
pub(super) fn aggregation(config: &Config, procedure: &Procedure) -> Aggregation {
    let federation = &config.federation;
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
        weighting: config.weighting(procedure),
        estimator,
        clip: federation.clip,
        ..Aggregation::mean(variance_average, unselected, posterior_interval)
    }
}

/// What the federation chooses on data that clients set aside.
pub(super) fn choices(config: &Config, procedure: &Procedure) -> Option<Choices> {
    let searched = procedure.laplace().filter(|_| procedure.searches_prior_variance());
    let prior_variance = searched.map(|laplace| laplace.structure.typical_prior_variance());
    let temperature = config.calibration.temperature == Temperature::AUTO;
    let after = calibration_round(config.rounds);
    let modes = procedure.modes;
    let last = config.rounds as u64;
    (temperature || prior_variance.is_some()).then_some(Choices {
        after,
        last,
        prior_variance,
        temperature,
        modes,
    })
}

impl Config {
    /// How much a participant counts in the average. Where that is left to the method, noise and robust estimates, which
    /// are worked out for participants that count alike, come first.
    #[must_use]
    pub fn weighting(&self, procedure: &Procedure) -> Weighting {
        let alike = self.privacy.is_on() || self.federation.aggregate != AggregateName::Mean;
        match self.federation.weighting {
            WeightingName::Uniform => Weighting::Uniform,
            WeightingName::Samples => Weighting::Samples,
            WeightingName::Method if alike => Weighting::Uniform,
            WeightingName::Method => procedure.weighting,
        }
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

/// How clients are hidden, and what counts epsilon; nothing where there is no noise, or nothing is shared. With
/// `participants` expected of `clients` clients, or all of them where the method wants everyone in every round.
pub(super) fn privacy(
    config: &Config,
    procedure: &Procedure,
    clients: usize,
    participants: usize,
) -> Option<Privacy> {
    let privacy = config.privacy;
    if !privacy.is_on() || procedure.held() == Part::Nothing {
        return None;
    }
    let expected = match procedure.participation {
        Participation::Sampled => participants as f64,
        Participation::Everyone => clients as f64,
    };
    let sampled = expected / clients as f64;
    Some(Privacy {
        mechanism: Mechanism { sampled, expected, clip: privacy.clip, noise: privacy.noise },
        accountant: Accountant::new(sampled, privacy.noise, privacy.delta),
    })
}
