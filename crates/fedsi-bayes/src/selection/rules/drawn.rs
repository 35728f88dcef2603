//! Rules that draw.

use rand::distr::Open01;
use rand::seq::index;
use rand::{Rng, RngExt as _};

use crate::selection::ranking::Score;
use crate::selection::rule::check_size;
use crate::selection::{Candidates, SelectionError, SelectionRule, Subnetwork};

/// A draw without replacement, weighted by the contribution to the variance of the outputs. Like [`Random`] it takes
/// parameters all over the network, where `predictive` may take those of few units, but takes none that moves no
/// output while another is left. One random number a candidate, in order.
#[derive(Clone, Copy, Debug)]
pub struct Leverage;

impl SelectionRule for Leverage {
    fn name(&self) -> &str {
        "leverage"
    }

    fn summary(&self) -> &str {
        "Drawn at random without replacement, weighted by the contribution to the variance of the outputs."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        rng: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        check_size(candidates.len(), size)?;
        candidates.best(candidates.contributions().map(|weight| key(weight, rng)), size)
    }
}

/// A weighted draw without replacement, as a score: the keys `u^(1/w)` of Efraimidis and Spirakis (2006) on the scale
/// `-ln(-ln key)`, where no weight overflows. Candidates without weight come after all others, in random order.
fn key(weight: f64, rng: &mut dyn Rng) -> Score {
    let uniform: f64 = rng.sample(Open01);
    let gumbel = -(-uniform.ln()).ln();
    if weight > 0.0 { Score::new(true, weight.ln() + gumbel) } else { Score::new(false, gumbel) }
}

/// A uniform draw without replacement.
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl SelectionRule for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn summary(&self) -> &str {
        "Drawn at random without replacement, all parameters alike."
    }

    fn uses_curvature(&self) -> bool {
        false
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        rng: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        check_size(candidates.len(), size)?;
        candidates.subnetwork(index::sample(rng, candidates.len(), size).into_vec())
    }
}
