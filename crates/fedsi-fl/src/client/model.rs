//! A client's own model.

use crate::parameters::Parameters;

/// A client's own model: its parameters, and what is needed to predict with them.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalModel {
    /// Whose: the key of its draws.
    pub client: usize,
    /// All parameters of the network, and what is known of them.
    pub parameters: Parameters,
    /// Regression: the standard deviation of the noise of each target, in units of the standardised targets. Empty for
    /// classes.
    pub observation_noise: Vec<f64>,
    /// Draws that a prediction averages, where parameters are a Gaussian or the predictive samples.
    pub draws: usize,
}
