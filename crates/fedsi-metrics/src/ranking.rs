//! How well a score separates two groups.

use crate::MetricsError;

/// Area under the ROC curve: the probability that a random positive scores above a random negative, ties
/// counting one half.
///
/// `AUROC = (R - m (m + 1) / 2) / (m k)`, where R sums the mid-ranks of the m positives among all m + k scores.
/// For out-of-distribution data: entropies of in-distribution samples as negatives, of the others as positives.
/// `None` where a group is empty. O(n log n); the order of the samples does not matter.
///
/// # Errors
/// [`MetricsError::NotFinite`] for a NaN; infinite scores rank like any other.
pub fn auroc(negatives: &[f64], positives: &[f64]) -> Result<Option<f64>, MetricsError> {
    let mut scores = Vec::with_capacity(negatives.len() + positives.len());
    for (array, group, positive) in [("negatives", negatives, false), ("positives", positives, true)] {
        if let Some(row) = group.iter().position(|score| score.is_nan()) {
            return Err(MetricsError::NotFinite { array, row, column: 0, value: f64::NAN });
        }
        scores.extend(group.iter().map(|&score| (score, positive)));
    }
    if negatives.is_empty() || positives.is_empty() {
        return Ok(None);
    }
    scores.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));

    // Twice the mid-rank is the sum of a tie's first and last rank: whole numbers, so no rounding before the
    // division. `==` in the chunks, because 0 and -0 are a tie that `total_cmp` only brings side by side.
    let mut doubled_rank_sum = 0_u128;
    let mut before = 0_u128;
    for tie in scores.chunk_by(|a, b| a.0 == b.0) {
        let size = tie.len() as u128;
        let positives_here = tie.iter().filter(|(_, positive)| *positive).count() as u128;
        doubled_rank_sum += positives_here * (2 * before + size + 1);
        before += size;
    }
    let (m, k) = (positives.len() as u128, negatives.len() as u128);
    let doubled_wins = doubled_rank_sum - m * (m + 1);
    Ok(Some(doubled_wins as f64 / (2 * m * k) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_by_hand() {
        // Pairs (positive, negative): 3 beats 1 and 2; 2 beats 1 and ties 2: (1 + 1 + 1 + 0.5) / 4.
        assert_eq!(auroc(&[1.0, 2.0], &[3.0, 2.0]).unwrap(), Some(0.875));
        assert_eq!(auroc(&[1.0, 2.0], &[3.0, 4.0]).unwrap(), Some(1.0));
        assert_eq!(auroc(&[3.0, 4.0], &[1.0, 2.0]).unwrap(), Some(0.0));
        assert_eq!(auroc(&[1.0; 5], &[1.0; 3]).unwrap(), Some(0.5));
        assert_eq!(auroc(&[0.0], &[-0.0]).unwrap(), Some(0.5));
        assert_eq!(auroc(&[0.0], &[f64::INFINITY]).unwrap(), Some(1.0));
    }

    #[test]
    fn an_empty_group_has_none_and_nan_is_refused() {
        assert_eq!(auroc(&[], &[1.0]).unwrap(), None);
        assert_eq!(auroc(&[1.0], &[]).unwrap(), None);
        assert_eq!(
            auroc(&[1.0], &[2.0, f64::NAN]).unwrap_err().to_string(),
            "positives, row 1, column 0: expected a finite number, found NaN"
        );
    }

    proptest! {
        #[test]
        fn it_counts_the_pairs(
            // A coarse grid, so that ties are common.
            negatives in prop::collection::vec((-4..4_i32).prop_map(f64::from), 1..20),
            positives in prop::collection::vec((-4..4_i32).prop_map(f64::from), 1..20),
        ) {
            let mut wins = 0.0;
            for p in &positives {
                for n in &negatives {
                    wins += if p > n { 1.0 } else if p == n { 0.5 } else { 0.0 };
                }
            }
            let pairs = (positives.len() * negatives.len()) as f64;
            let found = auroc(&negatives, &positives).unwrap().unwrap();
            prop_assert_eq!(found, wins / pairs);
            // Swapping the groups turns it round.
            let turned = auroc(&positives, &negatives).unwrap().unwrap();
            prop_assert!((found + turned - 1.0).abs() < 1e-12);
        }
    }
}
