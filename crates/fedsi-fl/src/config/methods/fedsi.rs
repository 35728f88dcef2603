//! Settings of FedSI and FedSI-Fac.

use fedsi_bayes::{Predictive, RuleName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::range::{number, whole};
use crate::config::{ConfigError, Tuned};

/// Settings of the methods fedsi and fedsi-fac.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedsiConfig {
    /// What personal models and participants infer: subnetwork (a Gaussian over a few of the body's parameters, with
    /// their covariance), whole (over all of them) or none (point models, under a prior of variance alpha). fedsi-fac has
    /// a form of its own, unless it is none.
    pub posterior: PosteriorName,
    /// How many networks a prediction averages, each trained in its share of the rounds under a head of its own: a whole
    /// number from 1 to 64, or "auto" (one for every 200 rounds, at most 8; without weight noise one).
    pub modes: ModesSetting,
    /// Share of the rounds, 0 up to 0.9, in which one body is trained for all modes before they part; of no meaning with
    /// one mode.
    pub common_share: f64,
    /// Share of the body's parameters, above 0 and at most 1, that have a distribution (fedsi; fedsi-fac has one
    /// of all, without correlations).
    pub subnetwork: f64,
    /// Which parameters those are: variance, live, predictive, leverage, random, magnitude, or layers:NAME,NAME.
    pub rule: RuleName,
    /// Prior variance of every body parameter before the first round, and of those that nobody selected in the
    /// last one; above 0.
    pub alpha: f64,
    /// What holds the body to the server's mean while it is trained: variance (1 over the prior's variance, the maximum a
    /// posteriori), or deviation (1 over its standard deviation: another reading of the paper's algorithm, which hands
    /// deviations to the local training).
    pub prior_scale: PriorScale,
    /// What the server averages of participants' variances: deviation (their roots, as in the paper; 0 where a
    /// participant did not select the parameter), variance (likewise), or selected (variances of those that did
    /// select it).
    pub variance_average: VarianceAverage,
    /// Participants infer and send variances in every so many rounds; in between the server keeps those it has.
    #[schemars(range(min = 1))]
    pub posterior_interval: u64,
    /// How exact the covariances of personal models are: 0 is exact; with eps every variance is between v and
    /// (1 + eps) v, and the cost depends on how many directions the data determines.
    pub tolerance: f64,
    /// The same for the variances that participants upload in a round, which become priors.
    pub round_tolerance: f64,
    /// What is tuned at the end: head, or all (the body then under the server's Gaussian).
    pub tune: Tuned,
    /// Prior variance of the body in a personal model's posterior: a number above 0; "auto" (chosen by the
    /// federation on data that clients set aside for the first four fifths of the rounds: docs/uncertainty.md); or "server" (the server's own variances, one a parameter).
    pub prior_variance: FinalPrior,
    /// From a distribution of outputs to probabilities: map, probit, differences, monte-carlo or bridge.
    pub predictive: Predictive,
    /// Draws of the predictive monte-carlo.
    #[schemars(range(min = 1))]
    pub draws: usize,
}

/// The prior variance of a personal model's posterior.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number above 0, \"auto\" or \"server\"")]
pub enum FinalPrior {
    /// The same for all parameters.
    Fixed(f64),
    /// By name.
    Named(NamedPrior),
}

/// A prior variance by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedPrior {
    /// The server's variances.
    Server,
    /// Chosen by the federation on training data that clients set aside.
    Auto,
}

/// What is inferred of the body beyond its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PosteriorName {
    /// A Gaussian over a few of its parameters.
    Subnetwork,
    /// A Gaussian over all of its parameters, with their covariance.
    Whole,
    /// Nothing.
    None,
}

/// How many modes a mixture has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number from 1 to 64 or \"auto\"")]
pub enum ModesSetting {
    /// So many.
    Fixed(usize),
    /// By name.
    Named(NamedModes),
}

/// A number of modes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedModes {
    /// By the number of rounds.
    Auto,
}

/// Most modes of a mixture.
const MAX_MODES: usize = 64;

/// Rounds that a mode needs before another one is worth more than training it longer.
const ROUNDS_OF_A_MODE: usize = 200;

/// Most modes that "auto" takes.
const MAX_AUTO_MODES: usize = 8;

impl ModesSetting {
    /// By the number of rounds.
    pub const AUTO: Self = Self::Named(NamedModes::Auto);

    /// How many modes a run of so many rounds under this weight noise has. Without noise, as on tables by default, one:
    /// that several are better was found under noise.
    #[must_use]
    pub fn count(self, rounds: usize, weight_noise: f64) -> usize {
        match self {
            Self::Fixed(count) => count,
            Self::Named(NamedModes::Auto) if weight_noise <= 0.0 => 1,
            Self::Named(NamedModes::Auto) => (rounds / ROUNDS_OF_A_MODE).clamp(1, MAX_AUTO_MODES),
        }
    }
}

/// What the pull towards the server's mean is the inverse of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PriorScale {
    /// The prior's variance.
    Variance,
    /// The prior's standard deviation.
    Deviation,
}

/// What is averaged where participants send variances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VarianceAverage {
    /// Standard deviations of all participants, 0 where one did not select the parameter: the paper's algorithm as
    /// it is written.
    Deviation,
    /// Variances of all participants, 0 where one did not select the parameter.
    Variance,
    /// Variances of those participants that selected the parameter: the others do not claim to know it exactly.
    Selected,
}

impl FedsiConfig {
    /// The calibrated profile's settings, with this share of the body in the subnetwork.
    pub(crate) fn calibrated(subnetwork: f64) -> Self {
        Self {
            posterior: PosteriorName::Subnetwork,
            modes: ModesSetting::AUTO,
            common_share: 0.0,
            subnetwork,
            rule: "random".into(),
            alpha: 1.0,
            prior_scale: PriorScale::Variance,
            variance_average: VarianceAverage::Selected,
            posterior_interval: 10,
            tolerance: 0.1,
            round_tolerance: 1.0,
            tune: Tuned::Head,
            prior_variance: FinalPrior::Named(NamedPrior::Auto),
            predictive: Predictive::Differences,
            draws: 100,
        }
    }

    /// The paper's settings, with this share of the body in the subnetwork.
    pub(crate) fn paper(subnetwork: f64) -> Self {
        Self {
            posterior: PosteriorName::Subnetwork,
            modes: ModesSetting::Fixed(1),
            common_share: 0.0,
            subnetwork,
            rule: "variance".into(),
            alpha: 1e-4,
            prior_scale: PriorScale::Variance,
            variance_average: VarianceAverage::Deviation,
            posterior_interval: 1,
            tolerance: 0.0,
            round_tolerance: 0.0,
            tune: Tuned::Head,
            prior_variance: FinalPrior::Named(NamedPrior::Server),
            predictive: Predictive::Probit,
            draws: 100,
        }
    }

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        if let ModesSetting::Fixed(count) = self.modes {
            whole("fedsi.modes", count, 1..=MAX_MODES, "between 1 and 64 modes, or \"auto\"")?;
        }
        let common = "a share from 0 to 0.9";
        number("fedsi.common_share", self.common_share, |x| (0.0..=0.9).contains(&x), common)?;
        let share = "a share above 0 and at most 1";
        number("fedsi.subnetwork", self.subnetwork, |x| x > 0.0 && x <= 1.0, share)?;
        // Variances travel in single precision.
        let single = "a number from 1e-30 to 1e30";
        number("fedsi.alpha", self.alpha, |x| (1e-30..=1e30).contains(&x), single)?;
        for (key, value) in
            [("fedsi.tolerance", self.tolerance), ("fedsi.round_tolerance", self.round_tolerance)]
        {
            number(key, value, |x| x >= 0.0, "a finite number, 0 or above")?;
        }
        if let FinalPrior::Fixed(variance) = self.prior_variance {
            number("fedsi.prior_variance", variance, |x| x > 0.0, "a finite number above 0")?;
        }
        let interval = usize::try_from(self.posterior_interval).unwrap_or(usize::MAX);
        whole("fedsi.posterior_interval", interval, 1..=usize::MAX, "at least 1: every round")?;
        whole("fedsi.draws", self.draws, 1..=1 << 20, "between 1 and 1048576 draws")
    }
}
