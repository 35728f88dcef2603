//! Rules that take the largest of a score.

use rand::Rng;

use crate::selection::ranking::Score;
use crate::selection::{Candidates, SelectionError, SelectionRule, Subnetwork};

/// The largest marginal variances: nearest to the full posterior in 2-Wasserstein distance if parameters were
/// independent. It favours parameters without curvature.
#[derive(Clone, Copy, Debug)]
pub struct Variance;

impl SelectionRule for Variance {
    fn name(&self) -> &str {
        "variance"
    }

    fn summary(&self) -> &str {
        "The largest marginal posterior variances, as in the paper; often parameters the data says nothing about."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        _: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        candidates.largest(candidates.marginal_variances(), size)
    }
}

/// The largest marginal variances among parameters with curvature; the others, by variance, only where those are too
/// few.
#[derive(Clone, Copy, Debug)]
pub struct Live;

impl SelectionRule for Live {
    fn name(&self) -> &str {
        "live"
    }

    fn summary(&self) -> &str {
        "The largest marginal posterior variances among the parameters that the data says anything about."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        _: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        let scores = candidates.marginal_variances().zip(&candidates.curvature().ggn);
        candidates.best(scores.map(|(variance, &h)| Score::new(h > 0.0, variance)), size)
    }
}

/// The largest contributions to the variance of the outputs, each parameter taken by itself.
#[derive(Clone, Copy, Debug)]
pub struct Predictive;

impl SelectionRule for Predictive {
    fn name(&self) -> &str {
        "predictive"
    }

    fn summary(&self) -> &str {
        "The largest contributions to the variance of the outputs: marginal variance times summed squared \
         derivative."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        _: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        candidates.largest(candidates.contributions(), size)
    }
}

/// The largest absolute values.
#[derive(Clone, Copy, Debug)]
pub struct Magnitude;

impl SelectionRule for Magnitude {
    fn name(&self) -> &str {
        "magnitude"
    }

    fn summary(&self) -> &str {
        "The parameters of the largest absolute value."
    }

    fn uses_curvature(&self) -> bool {
        false
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        _: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        candidates.largest(candidates.values().iter().map(|value| value.abs()), size)
    }
}
