//! A problem, a subnetwork of it, a fitted posterior, a prediction.
//!
//! 1. A [`Problem`](crate::Problem): a network at its trained parameters, its data, its likelihood.
//! 2. A [`Prior`] over a range of the parameters, and a [`Selection`] from it: by a rule, by given indices, all of the
//!    range, or all of it without correlations.
//! 3. [`Problem::fit`](crate::Problem::fit), or [`Problem::fit_scales`](crate::Problem::fit_scales) for several prior
//!    variances that share the work: a [`Laplace`], which holds what it was fitted to.
//! 4. [`Laplace::probabilities`], [`Laplace::regression`], [`Laplace::spread`], [`Laplace::outputs`].
//!
//! A search over prior variances needs predictions and no posteriors:
//! [`Problem::probabilities_at_scales`](crate::Problem::probabilities_at_scales) and
//! [`Problem::regression_at_scales`](crate::Problem::regression_at_scales). Two such searches are there:
//! [`Problem::scale_by_marginal_likelihood`](crate::Problem::scale_by_marginal_likelihood) and
//! [`Problem::scale_by_held_out`](crate::Problem::scale_by_held_out).

mod fit;
mod fitted;
mod prior_search;
mod scales;
mod select;

pub use fit::ScaledFits;
pub use fitted::{Laplace, LaplaceParts, Regression};
pub use prior_search::{PROBABILITY_FLOOR, PriorScale};
pub use select::{Prior, Selection};

use thiserror::Error;

use crate::error::PosteriorError;
use crate::selection::SelectionError;

/// Why there is no posterior: a selection or a fit that failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LaplaceError {
    /// The subnetwork cannot be chosen.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// Curvature or covariance cannot be computed.
    #[error(transparent)]
    Posterior(#[from] PosteriorError),
    /// A search over prior variances without an answer.
    #[error("no prior variance gives a finite score: the data or the network is at fault")]
    NoFiniteScore,
}
