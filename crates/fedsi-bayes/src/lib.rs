//! Gaussian posteriors over chosen parts of a network, and what they predict.
//!
//! Around a trained network the outputs are nearly linear in the parameters, and the loss nearly quadratic: a
//! Gaussian (Laplace) posterior whose precision is the generalised Gauss-Newton matrix (GGN) summed over the
//! data, plus the prior's precision. Over a *subnetwork*, a chosen few of the parameters, its full covariance
//! is affordable. The way through this crate:
//!
//! 1. [`Curvature`]: the diagonal of the GGN, layer by layer.
//! 2. [`Rule`] and [`selection`]: which parameters have a distribution.
//! 3. [`Posterior`]: their covariance, computed by the structure of the network's Jacobian, never multiplying out
//!    more than a block of it; exact, or to a tolerance with a certificate.
//! 4. [`OutputDistribution`]: what that says of the outputs for an input.
//! 5. [`predictive`]: class probabilities, variances, evidence.
//!
//! All of it runs in `f64` on the caller's thread; equal inputs give equal bits.

mod curvature;
mod dense;
mod error;
mod jacobian;
mod likelihood;
mod outputs;
mod posterior;
pub mod predictive;
pub mod selection;

pub use curvature::Curvature;
pub use error::PosteriorError;
pub use likelihood::Likelihood;
pub use outputs::OutputDistribution;
pub use posterior::{Covariance, Factors, Form, Posterior, PosteriorFamily, ggn};
pub use predictive::{
    Predictive, log_likelihood, log_marginal_likelihood, probabilities, regression_variance, spread,
};
pub use selection::{Candidates, Explanation, Rule, SelectionError, Subnetwork};
