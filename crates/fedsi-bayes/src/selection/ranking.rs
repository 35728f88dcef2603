//! The candidates with the best scores.

use super::rule::check_size;
use super::{Candidates, SelectionError, Subnetwork};

/// A candidate's place in a ranking: preferred ones before others, then by score.
#[derive(Clone, Copy)]
pub(super) struct Score {
    preferred: bool,
    value: f64,
}

impl Score {
    pub(super) fn new(preferred: bool, value: f64) -> Self {
        // The sum turns -0 into 0: `total_cmp` orders them, but they are a tie.
        Self { preferred, value: if value.is_nan() { f64::NEG_INFINITY } else { value + 0.0 } }
    }
}

impl Candidates<'_> {
    /// The `size` candidates with the largest scores, of which there is one for each candidate, in order. Equal
    /// scores: the lower index. NaN ranks below all others. Linear in the candidates, apart from sorting what was
    /// chosen.
    ///
    /// # Errors
    /// A size of zero or above the number of candidates; too few or too many scores.
    pub fn largest(
        &self,
        scores: impl IntoIterator<Item = f64>,
        size: usize,
    ) -> Result<Subnetwork, SelectionError> {
        self.best(scores.into_iter().map(|score| Score::new(true, score)), size)
    }

    pub(super) fn best(
        &self,
        scores: impl Iterator<Item = Score>,
        size: usize,
    ) -> Result<Subnetwork, SelectionError> {
        check_size(self.len(), size)?;
        let mut ranked: Vec<(Score, usize)> =
            scores.enumerate().map(|(offset, score)| (score, offset)).collect();
        if ranked.len() != self.len() {
            let (expected, found) = (self.len(), ranked.len());
            return Err(SelectionError::Length { array: "scores", expected, found });
        }
        // No two are equal, for the offset decides: so the chosen set is unique though the sort is unstable.
        let before = |(a, i): &(Score, usize), (b, j): &(Score, usize)| {
            b.preferred.cmp(&a.preferred).then(b.value.total_cmp(&a.value)).then(i.cmp(j))
        };
        if size < ranked.len() {
            ranked.select_nth_unstable_by(size, before);
            ranked.truncate(size);
        }
        self.subnetwork(ranked.into_iter().map(|(_, offset)| offset).collect())
    }

    /// The candidates at these offsets from the start of the range, in any order.
    pub(super) fn subnetwork(&self, mut offsets: Vec<usize>) -> Result<Subnetwork, SelectionError> {
        offsets.sort_unstable();
        let range = self.range();
        Subnetwork::new(offsets.into_iter().map(|offset| range.start + offset).collect(), range)
    }
}
