//! A square root of a covariance that may be anything rounding leaves of one.

/// `L` with `L L' = C S C`, `C = I - 11'/O`: the covariance of logits without their common mode.
///
/// A softmax does not see what all logits have in common, so it is taken out before the factorisation: a large
/// common mode then costs no precision. The factor comes from a Cholesky factorisation with diagonal pivoting,
/// which stops where nothing but rounding is left. So a covariance of any rank is fine, zero included, and of a
/// slightly indefinite one the negative part is dropped.
#[derive(Debug)]
pub(super) struct CentredFactor {
    classes: usize,
    /// The columns of L one after the other, those of the last factorisation first.
    columns: Vec<f64>,
    rank: usize,
    /// What remains to be factorised.
    residual: Vec<f64>,
    means: Vec<f64>,
    pending: Vec<bool>,
}

impl CentredFactor {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            classes,
            columns: vec![0.0; classes * classes],
            rank: 0,
            residual: vec![0.0; classes * classes],
            means: vec![0.0; classes],
            pending: vec![false; classes],
        }
    }

    /// The columns of L.
    pub(super) fn columns(&self) -> impl Iterator<Item = &[f64]> {
        self.columns.chunks_exact(self.classes).take(self.rank)
    }

    /// Factorises a covariance (finite, symmetric). O(O² rank), no allocation.
    pub(super) fn factorise(&mut self, covariance: &[f64]) {
        let n = self.classes;
        let largest = covariance.iter().step_by(n + 1).fold(0.0, |largest: f64, v| largest.max(*v));
        // Centring and n subtractions each leave an error of this order.
        let rounding = 16.0 * n as f64 * f64::EPSILON * largest;
        self.centre(covariance);
        self.pending.fill(true);
        self.rank = 0;
        while let Some((pivot, variance)) = self.largest_pending()
            && variance > rounding
        {
            self.pending[pivot] = false;
            let root = variance.sqrt();
            let column = &mut self.columns[self.rank * n..][..n];
            for (i, entry) in column.iter_mut().enumerate() {
                *entry = if self.pending[i] {
                    // No covariance exceeds the two deviations; where one does by more than rounding, it would
                    // blow up the row.
                    let bound = (self.residual[i * n + i].max(0.0) + rounding).sqrt();
                    (self.residual[pivot * n + i] / root).clamp(-bound, bound)
                } else {
                    0.0
                };
            }
            column[pivot] = root;
            for i in (0..n).filter(|&i| self.pending[i]) {
                let row = &mut self.residual[i * n..][..n];
                for (value, entry) in row.iter_mut().zip(&*column) {
                    *value -= column[i] * entry;
                }
            }
            self.rank += 1;
        }
    }

    /// `residual = C S C`.
    fn centre(&mut self, covariance: &[f64]) {
        let n = self.classes;
        let share = 1.0 / n as f64;
        for (mean, row) in self.means.iter_mut().zip(covariance.chunks_exact(n)) {
            *mean = row.iter().map(|value| value * share).sum();
        }
        let grand: f64 = self.means.iter().map(|mean| mean * share).sum();
        let rows = self.residual.chunks_exact_mut(n).zip(covariance.chunks_exact(n));
        for ((target, row), own) in rows.zip(&self.means) {
            for ((value, entry), other) in target.iter_mut().zip(row).zip(&self.means) {
                *value = (entry - own) - (other - grand);
            }
        }
    }

    /// The pending variable of largest remaining variance; ties: the lowest.
    fn largest_pending(&self) -> Option<(usize, f64)> {
        let mut best = None;
        for i in (0..self.classes).filter(|&i| self.pending[i]) {
            let variance = self.residual[i * self.classes + i];
            if best.is_none_or(|(_, largest)| variance > largest) {
                best = Some((i, variance));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `L L'`.
    fn square(factor: &CentredFactor) -> Vec<f64> {
        let n = factor.classes;
        let mut product = vec![0.0; n * n];
        for column in factor.columns() {
            for (entry, value) in product.iter_mut().enumerate() {
                *value += column[entry / n] * column[entry % n];
            }
        }
        product
    }

    fn centred(covariance: &[f64], n: usize) -> Vec<f64> {
        let c = |i: usize, j: usize| f64::from(u8::from(i == j)) - 1.0 / n as f64;
        let mut product = vec![0.0; n * n];
        for (entry, value) in product.iter_mut().enumerate() {
            for (k, covariance) in covariance.iter().enumerate() {
                *value += c(entry / n, k / n) * covariance * c(k % n, entry % n);
            }
        }
        product
    }

    /// `B B'` from n x r factors.
    fn outer(factors: &[f64], n: usize) -> Vec<f64> {
        let r = factors.len() / n;
        (0..n * n)
            .map(|entry| (0..r).map(|k| factors[entry / n * r + k] * factors[entry % n * r + k]).sum())
            .collect()
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs()))
    }

    proptest! {
        #[test]
        fn any_rank_is_factorised(
            (n, factors) in (1_usize..7, 0_usize..7)
                .prop_flat_map(|(n, r)| (Just(n), prop::collection::vec(-2.0..2.0_f64, n * r))),
            common in prop_oneof![Just(0.0), Just(1e6)],
            noise in prop_oneof![Just(0.0), Just(1e-12)],
        ) {
            let mut covariance = outer(&factors, n);
            for (entry, value) in covariance.iter_mut().enumerate() {
                // A symmetric disturbance of either sign.
                let (i, j) = (entry / n, entry % n);
                *value += common + noise * ((i + j + i * j) as f64).sin();
            }
            let mut factor = CentredFactor::new(n);
            factor.factorise(&covariance);
            prop_assert!(factor.rank < n, "the common mode is gone");
            let error = distance(&square(&factor), &centred(&covariance, n));
            // A variance disturbed by v disturbs a covariance with a variance w by sqrt(v w) at worst.
            let allowed = 1e-12 + 16.0 * noise.sqrt() + if common > 0.0 { 1e-6 } else { 0.0 };
            prop_assert!(error < allowed, "{error}");
        }
    }

    #[test]
    fn nothing_and_a_common_mode_have_rank_zero() {
        let mut factor = CentredFactor::new(4);
        for value in [0.0, 1.0, 1e-30, 1e9, 1e300, 1.0 / 3.0] {
            factor.factorise(&[value; 16]);
            assert_eq!(factor.rank, 0, "{value}");
        }
        factor.factorise(&[-1e-16; 16]);
        assert_eq!(factor.rank, 0);
    }

    #[test]
    fn an_indefinite_matrix_gives_no_more_variance_than_its_diagonal() {
        // Correlations of 1.5: no covariance at all.
        let covariance = [1.0, -1.5, 0.0, -1.5, 1.0, 0.0, 0.0, 0.0, 1e-9];
        let mut factor = CentredFactor::new(3);
        factor.factorise(&covariance);
        let (square, centred) = (square(&factor), centred(&covariance, 3));
        for k in [0, 4, 8] {
            assert!(square[k].is_finite() && square[k] <= centred[k].max(0.0) + 1e-12);
        }
    }
}
