//! A client's own model.

use fedsi_bayes::Strangeness;

use super::OwnClasses;
use crate::parameters::Parameters;

/// A client's own model: its parameters, and what is needed to predict with them.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalModel {
    /// Whose: the key of its draws.
    pub client: usize,
    /// The networks whose predictions are averaged; most methods have one.
    pub modes: Vec<PersonalMode>,
    /// Draws that a prediction averages, where parameters are a Gaussian or the predictive samples.
    pub draws: usize,
    /// What each mode's logits are divided by; in a regression a factor of its variance.
    pub temperature: f64,
    /// What the logarithms of the modes' average are divided by.
    pub mixture_temperature: f64,
    /// The classes that have a probability at all; none: every class.
    pub own_classes: Option<OwnClasses>,
    /// What is usual among its training inputs; none where they are too few, or the model is of version 0.1.
    pub strangeness: Option<Strangeness>,
}

/// One of the networks whose predictions a personal model averages.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalMode {
    /// All parameters of the network, and what is known of them.
    pub parameters: Parameters,
    /// Regression: the standard deviation of the noise of each target, in units of the standardised targets. Empty for
    /// classes.
    pub observation_noise: Vec<f64>,
}

impl PersonalModel {
    /// A model of one network without a temperature.
    #[must_use]
    pub fn single(client: usize, parameters: Parameters, observation_noise: Vec<f64>, draws: usize) -> Self {
        let modes = vec![PersonalMode { parameters, observation_noise }];
        Self {
            client,
            modes,
            draws,
            temperature: 1.0,
            mixture_temperature: 1.0,
            own_classes: None,
            strangeness: None,
        }
    }

    /// The parameters of the first network: all there are, but in a mixture.
    ///
    /// # Panics
    /// In a model without any.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.modes[0].parameters
    }
}
