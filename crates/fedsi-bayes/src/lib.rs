//! Laplace posteriors over chosen parts of a network, and their predictions.
//!
//! Around a trained network the outputs are nearly linear in the parameters, and the loss nearly quadratic: a
//! Gaussian (Laplace) posterior whose precision is the generalised Gauss-Newton matrix (GGN) summed over the
//! data, plus the prior's precision. Over a *subnetwork*, a chosen few of the parameters, its full covariance
//! is affordable.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fedsi_bayes::{Likelihood, Predictive, Prior, Problem, selection::rules::Live};
//! use fedsi_nn::{LayerSpec, Network};
//!
//! let network = Network::new(&[2], &[LayerSpec::Linear(8), LayerSpec::Tanh, LayerSpec::Linear(2)])?;
//! let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
//! let trained: Vec<f64> = network.initialise(&mut rng);
//! let body = network.layout().body();
//!
//! let problem = Problem::new(Arc::new(network), trained, &[0., 0., 0., 1., 1., 0.], Likelihood::Categorical)?;
//! let subnetwork = problem.choose(&Prior::isotropic(body, 1.0), &Live, 12, &mut rng)?;
//! let posterior = problem.fit(&subnetwork, 0.0)?;
//! let probabilities = posterior.probabilities(&[1., 1., 9., 9.], Predictive::Probit, 0, &mut rng)?;
//! assert!((probabilities[0] + probabilities[1] - 1.0).abs() < 1e-12);
//! let uncertainty = posterior.spread(&[1., 1., 9., 9.])?;
//! assert!(uncertainty[0] < uncertainty[1], "more uncertain far from the data");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Problem`], [`Selection`] and [`Laplace`] are what most callers need. They are made of:
//!
//! 1. [`LinearisedNetwork`]: what is needed of a network; one of another library can implement it.
//! 2. [`Curvature`]: the diagonal of the GGN, layer by layer.
//! 3. [`SelectionRule`] and [`selection`]: which parameters have a distribution.
//! 4. [`Posterior`]: their covariance, computed by the structure of the network's Jacobian, never multiplying out
//!    more than a block of it; exact, or to a tolerance with a proven bound.
//! 5. [`predictive`]: class probabilities, variances, evidence.
//!
//! Beside them, [`strangeness`]: whether an input is like those a network was trained on.
//!
//! All of it runs in `f64`, on the caller's thread unless the network brings other [linear algebra](LinearAlgebra); equal
//! inputs give equal bits.

mod algebra;
mod collect;
mod curvature;
mod dense;
mod error;
mod jacobian;
mod laplace;
mod likelihood;
mod network;
mod outputs;
mod posterior;
pub mod predictive;
mod problem;
pub mod selection;
pub mod strangeness;

pub use algebra::{JacobianFactors, LinearAlgebra, NormalMatrix, Projector, SingleThread};
pub use curvature::Curvature;
pub use error::{EvaluationError, PosteriorError};
pub use laplace::{
    Laplace, LaplaceError, LaplaceParts, PROBABILITY_FLOOR, Prior, PriorScale, Regression, ScaledFits,
    Selection,
};
pub use likelihood::Likelihood;
pub use network::{BatchJacobian, LinearisedNetwork};
pub use outputs::OutputDistribution;
pub use posterior::{Covariance, Factors, Form, Posterior, PosteriorFamily, ggn};
pub use predictive::{
    Predictive, log_likelihood, log_marginal_likelihood, probabilities, regression_variance, spread,
};
pub use problem::Problem;
pub use selection::{
    Candidates, Explanation, RuleName, RuleNameError, Rules, SelectionError, SelectionRule, Subnetwork,
    TensorShare,
};
pub use strangeness::Strangeness;
