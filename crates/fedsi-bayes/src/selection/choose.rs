//! What the rules do.

use std::ops::Range;

use fedsi_nn::Layout;
use rand::distr::Open01;
use rand::seq::index;
use rand::{Rng, RngExt as _};

use super::{Candidates, Rule, SelectionError, Subnetwork};

impl Rule {
    /// Chooses `size` of the candidates ([`Layers`](Self::Layers): those of the layers, whatever the size).
    ///
    /// Equal scores: the lower index. A score that is NaN ranks below all others. Deterministic rules draw
    /// nothing from `rng`; `leverage` draws once a candidate, in order. Linear in the candidates, apart from
    /// sorting what was chosen.
    ///
    /// # Errors
    /// A size of zero or above the number of candidates, a layer that is not among them.
    pub fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        rng: &mut impl Rng,
    ) -> Result<Subnetwork, SelectionError> {
        if let Self::Layers(names) = self {
            return of_layers(candidates.layout(), candidates.range(), names);
        }
        self.check(candidates.layout(), candidates.range(), size)?;
        let mut offsets = match self {
            Self::Random => index::sample(rng, candidates.len(), size).into_vec(),
            other => foremost(other.standings(candidates, rng), size),
        };
        offsets.sort_unstable();
        let range = candidates.range();
        Subnetwork::new(offsets.into_iter().map(|offset| range.start + offset).collect(), range)
    }

    /// How many of the parameters in `range` the rule would choose, asked for `size`: known before any of them is
    /// trained.
    ///
    /// # Errors
    /// As for [`Self::select`].
    pub fn check(&self, layout: &Layout, range: Range<usize>, size: usize) -> Result<usize, SelectionError> {
        let count = range.len();
        match self {
            Self::Layers(names) => of_layers(layout, range, names).map(|found| found.indices().len()),
            _ if size == 0 => Err(SelectionError::Empty { candidates: count }),
            _ if size > count => Err(SelectionError::TooLarge { size, candidates: count }),
            _ => Ok(size),
        }
    }

    /// Each candidate's standing under a rule that ranks; none for the two that do not.
    fn standings(&self, candidates: &Candidates<'_>, rng: &mut impl Rng) -> Vec<Standing> {
        let standing = |score| Standing::new(true, score);
        match self {
            Self::Variance => candidates.marginal_variances().map(standing).collect(),
            Self::Live => candidates
                .marginal_variances()
                .zip(&candidates.curvature().ggn)
                .map(|(variance, &h)| Standing::new(h > 0.0, variance))
                .collect(),
            Self::Predictive => candidates.contributions().map(standing).collect(),
            Self::Leverage => candidates.contributions().map(|weight| drawn(weight, rng)).collect(),
            Self::Magnitude => candidates.values().iter().map(|value| standing(value.abs())).collect(),
            Self::Random | Self::Layers(_) => Vec::new(),
        }
    }
}

/// A weighted draw without replacement, as a standing: the keys `u^(1/w)` of Efraimidis and Spirakis (2006) on
/// the scale `-ln(-ln key)`, where no weight overflows. Candidates without weight come after all others, in
/// random order.
fn drawn(weight: f64, rng: &mut impl Rng) -> Standing {
    let uniform: f64 = rng.sample(Open01);
    let gumbel = -(-uniform.ln()).ln();
    if weight > 0.0 { Standing::new(true, weight.ln() + gumbel) } else { Standing::new(false, gumbel) }
}

/// How much a rule wants a candidate: preferred ones before others, then by score.
#[derive(Clone, Copy)]
struct Standing {
    preferred: bool,
    score: f64,
}

impl Standing {
    fn new(preferred: bool, score: f64) -> Self {
        // The sum turns -0 into 0: `total_cmp` tells them apart, a tie must not.
        Self { preferred, score: if score.is_nan() { f64::NEG_INFINITY } else { score + 0.0 } }
    }
}

/// The offsets of the `size` best standings (at least one, at most all), in no order.
fn foremost(standings: Vec<Standing>, size: usize) -> Vec<usize> {
    let mut ranked: Vec<(Standing, usize)> =
        standings.into_iter().enumerate().map(|(offset, standing)| (standing, offset)).collect();
    // No two are equal, for the offset decides: so the chosen set is unique though the sort is unstable.
    let before = |(a, i): &(Standing, usize), (b, j): &(Standing, usize)| {
        b.preferred.cmp(&a.preferred).then(b.score.total_cmp(&a.score)).then(i.cmp(j))
    };
    if size < ranked.len() {
        ranked.select_nth_unstable_by(size, before);
        ranked.truncate(size);
    }
    ranked.into_iter().map(|(_, offset)| offset).collect()
}

/// All parameters of the named layers and tensors.
fn of_layers(layout: &Layout, range: Range<usize>, names: &[String]) -> Result<Subnetwork, SelectionError> {
    // A tensor that is a candidate only in part cannot be taken whole.
    let tensors: Vec<_> = layout
        .tensors()
        .iter()
        .filter(|tensor| range.start <= tensor.range.start && tensor.range.end <= range.end)
        .map(|tensor| (tensor.layer.to_string(), tensor))
        .collect();
    if let Some(name) = names
        .iter()
        .find(|name| !tensors.iter().any(|(layer, tensor)| layer == *name || tensor.name == **name))
    {
        let mut known: Vec<String> = tensors.iter().map(|(layer, _)| layer.clone()).collect();
        known.dedup();
        known.extend(tensors.iter().map(|(_, tensor)| tensor.name.clone()));
        return Err(SelectionError::UnknownLayer { name: name.clone(), known });
    }
    let indices = tensors
        .iter()
        .filter(|(layer, tensor)| names.contains(layer) || names.contains(&tensor.name))
        .flat_map(|(_, tensor)| tensor.range.clone())
        .collect();
    Subnetwork::new(indices, range)
}

#[cfg(test)]
mod tests;
