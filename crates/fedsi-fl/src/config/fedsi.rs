//! Settings of FedSI and FedSI-Fac, and the two profiles.

use std::fmt;

use fedsi_bayes::{Predictive, Rule};
use fedsi_data::DatasetName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Tuned};
use crate::aggregate::SpreadAverage;

/// A set of defaults for FedSI and FedSI-Fac; other methods have one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// What a search on held-out training data found best; docs/calibrated.md tells how.
    Calibrated,
    /// The paper's settings to the letter; docs/paper-profile.md tells what they do.
    Paper,
}

/// Settings of the methods fedsi and fedsi-fac.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedsiConfig {
    /// Share of the body's parameters, above 0 and at most 1, that have a distribution (fedsi; fedsi-fac has one
    /// of all, without correlations).
    pub subnetwork: f64,
    /// Which parameters those are: variance, live, predictive, leverage, random, magnitude, or layers:NAME,NAME.
    pub rule: Rule,
    /// Prior variance of every body parameter before the first round, and of those that nobody selected in the
    /// last one; above 0.
    pub alpha: f64,
    /// Standard deviation of Gaussian noise on the body's parameters in local training, 0 for none: what is
    /// minimised is then the mean loss of a neighbourhood, as under the posterior that a prediction averages over.
    pub noise: f64,
    /// What the server averages of participants' variances: deviation (their roots, as in the paper; 0 where a
    /// participant did not select the parameter), variance (likewise), or selected (variances of those that did
    /// select it).
    pub spread: SpreadAverage,
    /// Participants infer and send variances in every so many rounds; in between the server keeps those it has.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// How exact the covariances of personal models are: 0 is exact; with eps every variance is between v and
    /// (1 + eps) v, and costs follow what the data has to say.
    pub tolerance: f64,
    /// The same for the variances that participants upload in a round, which become priors.
    pub round_tolerance: f64,
    /// What is tuned at the end: head, or all (the body then under the server's Gaussian).
    pub tune: Tuned,
    /// Prior variance of the body in a personal model's posterior: a number above 0; "auto" (chosen by the
    /// federation: for the first four fifths of the rounds clients set a fifth of their training data aside, and
    /// what predicts that best is taken); or "server" (the server's own variances, one a parameter).
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

impl Profile {
    /// Both, in the order in which they are listed to a person.
    pub const ALL: [Self; 2] = [Self::Calibrated, Self::Paper];
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Calibrated => "calibrated",
            Self::Paper => "paper",
        })
    }
}

impl FedsiConfig {
    /// The calibrated profile's settings.
    pub(super) fn calibrated(dataset: DatasetName) -> Self {
        Self {
            subnetwork: default_share(dataset),
            rule: Rule::Random,
            alpha: 1.0,
            noise: default_noise(dataset),
            spread: SpreadAverage::Selected,
            every: 10,
            tolerance: 0.1,
            round_tolerance: 1.0,
            tune: Tuned::Head,
            prior_variance: FinalPrior::Named(NamedPrior::Auto),
            predictive: Predictive::Differences,
            draws: 100,
        }
    }

    /// The paper's settings.
    fn paper(dataset: DatasetName) -> Self {
        Self {
            subnetwork: default_share(dataset),
            rule: Rule::Variance,
            alpha: 1e-4,
            noise: 0.0,
            spread: SpreadAverage::Deviation,
            every: 1,
            tolerance: 0.0,
            round_tolerance: 0.0,
            tune: Tuned::Head,
            prior_variance: FinalPrior::Named(NamedPrior::Server),
            predictive: Predictive::Probit,
            draws: 100,
        }
    }
}

/// The variant without correlations.
const FAC: &str = "fedsi-fac";

impl Config {
    /// The same with a profile's settings. Only FedSI and FedSI-Fac have more than one.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        if profile == Profile::Paper && ["fedsi", FAC].contains(&self.method.as_str()) {
            self.fedsi = FedsiConfig::paper(self.data.dataset);
            self.training.rate = 1e-2;
        }
        self
    }
}

/// What did best, or no worse than anything else, on training data set aside (docs/calibrated.md). Noise slows
/// training down: it pays where rounds are many and samples few.
const fn default_noise(dataset: DatasetName) -> f64 {
    match dataset {
        DatasetName::Mnist | DatasetName::FashionMnist => 0.3,
        DatasetName::Digits => 0.1,
        // CIFAR-10: a tenth cost 18 points at 40 rounds. Files: who knows what they hold.
        DatasetName::Cifar10 | DatasetName::Files => 0.0,
    }
}

/// The paper's sizes: 5% of the MLP, 7% of the convolutional network.
const fn default_share(dataset: DatasetName) -> f64 {
    match dataset {
        DatasetName::Cifar10 => 0.07,
        DatasetName::Digits | DatasetName::Mnist | DatasetName::FashionMnist | DatasetName::Files => 0.05,
    }
}
