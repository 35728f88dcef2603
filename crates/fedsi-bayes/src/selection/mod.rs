//! Which parameters keep a posterior: the subnetwork.
//!
//! A full covariance over S of R parameters costs S² numbers, so S is a few per cent of R, and which ones they
//! are decides how much of the model's uncertainty survives. A [`Rule`] names a way to choose, [`Candidates`]
//! holds what may be chosen and what is known about it, and a [`Subnetwork`] is the checked result.
//!
//! ```
//! use fedsi_bayes::{Candidates, Curvature, Rule};
//! use fedsi_nn::{LayerSpec, Network};
//!
//! let network = Network::new(&[1], &[LayerSpec::Linear(2), LayerSpec::Tanh, LayerSpec::Linear(1)])?;
//! let body = network.layout().body();
//! let curvature = Curvature { ggn: vec![4.0, 0.0, 1.0, 0.0], jacobian: vec![2.0, 0.0, 3.0, 0.0] };
//! let parameters = [0.1, -0.2, 0.3, 0.4, 0.5, 0.6, 0.7];
//! let candidates = Candidates::new(network.layout(), body, &curvature, &[1.0; 4], &parameters)?;
//!
//! let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
//! let paper = Rule::Variance.select(&candidates, 2, &mut rng)?;
//! assert_eq!(paper.indices(), [1, 3], "the two that the data says nothing about");
//! let live = "live".parse::<Rule>()?.select(&candidates, 2, &mut rng)?;
//! assert_eq!(live.indices(), [0, 2]);
//! assert_eq!(paper.jaccard(&live), 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidates;
mod choose;
mod error;
mod explanation;
mod rule;
mod subnetwork;

pub use candidates::Candidates;
pub use error::SelectionError;
pub use explanation::{Explanation, TensorShare};
pub use rule::{Rule, RuleNameError};
pub use subnetwork::Subnetwork;
