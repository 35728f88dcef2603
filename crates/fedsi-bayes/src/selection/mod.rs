//! Which parameters have a posterior: the subnetwork.
//!
//! A full covariance over S of R parameters costs S² numbers, so S is a few per cent of R, and which ones they
//! are decides how much of the model's uncertainty is kept. A [`SelectionRule`] chooses from [`Candidates`], the
//! parameters of a range with their curvature, prior and values; a [`Subnetwork`] is the checked result.
//!
//! ```
//! use fedsi_bayes::selection::rules::{Live, Variance};
//! use fedsi_bayes::{Candidates, Curvature, SelectionRule as _};
//! use fedsi_nn::{LayerSpec, Network};
//!
//! let network = Network::new(&[1], &[LayerSpec::Linear(2), LayerSpec::Tanh, LayerSpec::Linear(1)])?;
//! let body = network.layout().body();
//! let curvature = Curvature { ggn: vec![4.0, 0.0, 1.0, 0.0], jacobian: vec![2.0, 0.0, 3.0, 0.0] };
//! let parameters = [0.1, -0.2, 0.3, 0.4, 0.5, 0.6, 0.7];
//! let candidates = Candidates::new(network.layout(), body, &curvature, &[1.0; 4], &parameters)?;
//!
//! let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
//! let paper = Variance.select(&candidates, 2, &mut rng)?;
//! assert_eq!(paper.indices(), [1, 3], "the two without curvature");
//! let live = Live.select(&candidates, 2, &mut rng)?;
//! assert_eq!(live.indices(), [0, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidates;
mod error;
mod explanation;
mod name;
mod ranking;
mod rule;
pub mod rules;
mod subnetwork;

pub use candidates::Candidates;
pub use error::SelectionError;
pub use explanation::{Explanation, TensorShare};
pub use name::{RuleName, RuleNameError};
pub use rule::SelectionRule;
pub use rules::Rules;
pub use subnetwork::Subnetwork;
