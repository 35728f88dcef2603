//! Shares of a count: Wilson's interval, and exact tests of whether a share is what it should be.
//!
//! All tests are two-sided and return a p-value: twice the smaller tail, at most 1. Several of them together are
//! corrected by [`holm`](crate::holm).

use std::f64::consts::SQRT_2;
use std::ops::Range;

use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma::ln_gamma;

use crate::MetricsError;
use crate::normal::HALF_WIDTH_95;

/// Wilson's 95% interval of a share: `successes` of `trials`. Never empty and never outside of [0, 1], for 0 and for all
/// of them as well. `None` without trials, or with more successes than trials.
pub fn wilson(successes: usize, trials: usize) -> Option<[f64; 2]> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (n, z2) = (trials as f64, HALF_WIDTH_95 * HALF_WIDTH_95);
    let share = successes as f64 / n;
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = HALF_WIDTH_95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // The ends at 0 and at all are exact; rounding would leave a hair.
    let low = if successes == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if successes == trials { 1.0 } else { (middle + half).min(1.0) };
    Some([low, high])
}

/// The chance of at most `successes` of `trials` at a `probability`: the one-sided binomial test of fewer. 1 without trials.
pub fn binomial_below(successes: usize, trials: usize, probability: f64) -> f64 {
    if trials == 0 || successes >= trials {
        return 1.0;
    }
    let (k, n) = (successes as f64, trials as f64);
    beta_tail(n - k, k + 1.0, 1.0 - probability)
}

/// Whether `successes` of `trials` agree with a `probability`: the exact binomial test. 1 without trials.
pub fn binomial_test(successes: usize, trials: usize, probability: f64) -> f64 {
    if trials == 0 || successes > trials {
        return 1.0;
    }
    let (k, n) = (successes as f64, trials as f64);
    // P(X <= k) = I_{1-p}(n - k, k + 1), P(X >= k) = I_p(k, n - k + 1).
    let below = beta_tail(n - k, k + 1.0, 1.0 - probability);
    let above = beta_tail(k, n - k + 1.0, probability);
    two_sided(below, above)
}

/// The regularised incomplete beta function; 1 where the first shape is 0: then the tail is all there is.
fn beta_tail(a: f64, b: f64, x: f64) -> f64 {
    if a <= 0.0 { 1.0 } else { checked_beta_reg(a, b, x.clamp(0.0, 1.0)).unwrap_or(1.0) }
}

fn two_sided(below: f64, above: f64) -> f64 {
    (2.0 * below.min(above)).min(1.0)
}

/// Whether two shares differ, each as (successes, trials): Fisher's exact test. 1 where either has no trials. O(trials of
/// the first).
pub fn fisher_test(own: (usize, usize), others: (usize, usize)) -> f64 {
    let ((k, n), (l, m)) = (own, others);
    if n == 0 || m == 0 || k > n || l > m {
        return 1.0;
    }
    let successes = k + l;
    let (least, most) = (successes.saturating_sub(m), successes.min(n));
    let choose = |of: usize, out: usize| ln_factorial(of) - ln_factorial(out) - ln_factorial(of - out);
    let whole = choose(n + m, successes);
    let chance = |x: usize| (choose(n, x) + choose(m, successes - x) - whole).exp();
    let below: f64 = (least..=k).map(chance).sum();
    let above: f64 = (k..=most).map(chance).sum();
    two_sided(below, above)
}

fn ln_factorial(of: usize) -> f64 {
    ln_gamma(of as f64 + 1.0)
}

/// How likely a standard normal value is at least this far from 0, on either side.
pub fn normal_p(distance: f64) -> f64 {
    erfc(distance.abs() / SQRT_2).min(1.0)
}

/// From this variance on the number of wrong answers is normal.
const NORMAL: f64 = 400.0;

/// Whether answers given with these confidences, `correct` of them right, agree with them: how likely a number of right
/// answers this far from the sum of confidences is, were each right with the probability of its confidence. Exact
/// (Poisson-binomial) up to a few hundred expected errors, normal beyond. O(samples x errors), or O(samples).
pub fn confidence_test(confidences: &[f64], correct: usize) -> f64 {
    let wrong = confidences.len().saturating_sub(correct);
    let doubts = || confidences.iter().map(|confidence| (1.0 - confidence).clamp(0.0, 1.0));
    let mean: f64 = doubts().sum();
    let variance: f64 = doubts().map(|doubt| doubt * (1.0 - doubt)).sum();
    if variance > NORMAL {
        // With the correction for whole numbers.
        let distance = ((wrong as f64 - mean).abs() - 0.5).max(0.0) / variance.sqrt();
        return normal_p(distance);
    }
    // Beyond this many errors nothing is left of the distribution.
    let most = mean + 10.0 * variance.sqrt() + 20.0;
    if wrong as f64 > most {
        return 0.0;
    }
    // chances[w]: that w of the answers so far are wrong.
    let mut chances = vec![0.0; wrong + 1];
    chances[0] = 1.0;
    for doubt in doubts() {
        for errors in (0..=wrong).rev() {
            let fewer = if errors > 0 { chances[errors - 1] } else { 0.0 };
            chances[errors] = chances[errors] * (1.0 - doubt) + fewer * doubt;
        }
    }
    let fewer: f64 = chances[..wrong].iter().sum();
    two_sided(fewer + chances[wrong], (1.0 - fewer).max(0.0))
}

/// How values of one group compare with all others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// How likely a value of the group is larger than another: 0.5 where they are alike.
    pub larger: f64,
    /// How likely a distance this far from 0.5 is by chance, two-sided.
    pub p: f64,
}

/// The rank of each value, counted from 1; equal values share the mean of theirs. O(n log n).
pub fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tie in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (tie.len() + 1) as f64 / 2.0;
        tie.iter().for_each(|&row| ranks[row] = rank);
        first += tie.len();
    }
    ranks
}

/// Whether values of each group tend to be larger or smaller than all others: the rank test of Mann and Whitney, by its
/// normal approximation. `None` of a group where it or the others have fewer than eight values, or that is not within the
/// values. O(n log n), whatever the number of groups.
///
/// # Errors
/// A NaN.
pub fn rank_tests(values: &[f64], groups: &[Range<usize>]) -> Result<Vec<Option<RankTest>>, MetricsError> {
    const FEWEST: usize = 8;
    if let Some(row) = values.iter().position(|value| value.is_nan()) {
        return Err(MetricsError::NotFinite { array: "values", row, column: 0, value: f64::NAN });
    }
    let ranks = mid_ranks(values);
    let test = |group: &Range<usize>| {
        let own = ranks.get(group.clone())?;
        let others = values.len() - own.len();
        if own.len() < FEWEST || others < FEWEST {
            return None;
        }
        let (n, m) = (own.len() as f64, others as f64);
        let larger = (own.iter().sum::<f64>() - n * (n + 1.0) / 2.0) / (n * m);
        // Ties make the variance smaller than this: with them the test claims too little, never too much.
        let deviation = ((n + m + 1.0) / (12.0 * n * m)).sqrt();
        Some(RankTest { larger, p: normal_p((larger - 0.5) / deviation) })
    };
    Ok(groups.iter().map(test).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    #[test]
    fn wilson_s_interval_worked_by_hand() {
        // z^2 = 3.8415. 8 of 10: middle (0.8 + 0.19207)/1.38415 = 0.71674; half 1.96/1.38415 sqrt(0.016 + 0.0096036).
        let [low, high] = wilson(8, 10).unwrap();
        close(low, 0.490_162, 1e-6);
        close(high, 0.943_318, 1e-6);
        // None of ten: 0 to z^2 / (n + z^2).
        let [low, high] = wilson(0, 10).unwrap();
        assert_eq!(low, 0.0);
        close(high, 3.841_459 / 13.841_459, 1e-6);
        assert_eq!(wilson(13, 13).unwrap()[1], 1.0);
        assert!(wilson(13, 13).unwrap()[0] > 0.7);
        assert_eq!((wilson(0, 0), wilson(3, 2)), (None, None));
    }

    #[test]
    fn binomial_tests_worked_by_hand() {
        // All of 13 where nine in ten are expected: P(X = 13) = 0.9^13 = 0.2542; two-sided 0.508.
        close(binomial_test(13, 13, 0.9), 2.0 * 0.9_f64.powi(13), 1e-12);
        // None of 3 at one half: 1/8, two-sided 1/4.
        close(binomial_test(0, 3, 0.5), 0.25, 1e-12);
        // 5 of 10 at one half is the middle.
        assert_eq!(binomial_test(5, 10, 0.5), 1.0);
        assert_eq!(binomial_test(0, 0, 0.5), 1.0);
        // 63 of 100 where half is expected: P(X >= 63) = 0.006016.
        close(binomial_test(63, 100, 0.5), 2.0 * 0.006_016, 2e-5);
    }

    #[test]
    fn fisher_s_test_worked_by_hand() {
        // The lady tasting tea: 3 of 4 against 1 of 4: P(X >= 3) = 17/70.
        close(fisher_test((3, 4), (1, 4)), 34.0 / 70.0, 1e-12);
        // 0 of 4 against 4 of 4: 1/70.
        close(fisher_test((0, 4), (4, 4)), 2.0 / 70.0, 1e-12);
        assert_eq!(fisher_test((13, 13), (390, 400)), 1.0, "all right by chance");
        assert!(fisher_test((30, 60), (390, 400)) < 1e-10);
        assert_eq!(fisher_test((0, 0), (1, 2)), 1.0);
    }

    #[test]
    fn confidences_that_come_true_are_not_refused() {
        // One answer at 0.9, wrong: 0.1, two-sided 0.2. Right: 1.
        close(confidence_test(&[0.9], 0), 0.2, 1e-12);
        assert_eq!(confidence_test(&[0.9], 1), 1.0);
        // Two at 0.5 and 0.8, both wrong: 0.5 * 0.2 = 0.1.
        close(confidence_test(&[0.5, 0.8], 0), 0.2, 1e-12);
        // Nobody wrong of 13 at 0.99: nothing to say. A third wrong of 60 at 0.95: a lot.
        assert_eq!(confidence_test(&[0.99; 13], 13), 1.0);
        assert!(confidence_test(&[0.95; 60], 40) < 1e-6);
        // Underconfident: 60 of 60 at 0.8.
        close(confidence_test(&[0.8; 60], 60), 2.0 * 0.8_f64.powi(60), 1e-12);
        // Of many answers the normal distribution, on both sides of the change: one deviation is 0.317, and half an answer
        // less far 0.33.
        for count in [1_500, 2_000] {
            let n = f64::from(count);
            let right = 0.5 * n + (0.25 * n).sqrt();
            let found = confidence_test(&vec![0.5; count as usize], right.round() as usize);
            close(found, 0.33, 0.02);
        }
        assert_eq!(confidence_test(&[], 0), 1.0);
    }

    #[test]
    fn the_normal_distribution() {
        close(normal_p(HALF_WIDTH_95), 0.05, 1e-10);
        assert_eq!((normal_p(0.0), normal_p(-1.0)), (1.0, normal_p(1.0)));
    }

    #[test]
    fn ranks_worked_by_hand() {
        assert_eq!(mid_ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        // 0 to 9, then 5 to 24: of 200 pairs the first group wins 10 and ties 5 (5 with 5, .. 9 with 9): 12.5 / 200.
        let values: Vec<f64> = (0..10).chain(5..25).map(f64::from).collect();
        let found = rank_tests(&values, &[0..10, 10..30, 0..5, 29..31]).unwrap();
        let [Some(small), Some(large), None, None] = found[..] else { panic!("{found:?}") };
        close(small.larger, 12.5 / 200.0, 1e-12);
        close(large.larger, 1.0 - 12.5 / 200.0, 1e-12);
        // (0.5 - 0.0625) / sqrt(31 / 2400) = 3.849: p = 0.000118.
        close(small.p, 0.000_118_4, 1e-6);
        close(small.p, large.p, 1e-12);
        let alike = rank_tests(&[1.0; 20], &[0..10, 10..20]).unwrap();
        assert_eq!(alike, [Some(RankTest { larger: 0.5, p: 1.0 }); 2]);
        assert!(rank_tests(&[f64::NAN], &[]).is_err());
    }

    proptest! {
        /// The interval has the share in it, and the test agrees with itself turned round.
        #[test]
        fn intervals_and_tests_are_symmetric(n in 1..200_usize, part in 0.0..1.0_f64, p in 0.05..0.95_f64) {
            let k = (part * n as f64) as usize;
            let [low, high] = wilson(k, n).unwrap();
            let share = k as f64 / n as f64;
            prop_assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
            let turned = wilson(n - k, n).unwrap();
            prop_assert!((turned[0] - (1.0 - high)).abs() < 1e-12);
            prop_assert!((binomial_test(k, n, p) - binomial_test(n - k, n, 1.0 - p)).abs() < 1e-9);
            // Equal confidences are a binomial distribution.
            let confident = confidence_test(&vec![p; n], k);
            prop_assert!((confident - binomial_test(k, n, p)).abs() < 1e-7, "{} {}", confident, binomial_test(k, n, p));
        }
    }
}
