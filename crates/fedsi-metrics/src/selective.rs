//! Selective prediction: answer where sure, decline where not.

use crate::{MetricsError, Predictions};

/// The entropy `-sum_c p_c ln p_c` of a row of probabilities, in nats: 0 when sure, `ln classes` when uniform.
pub fn entropy<T: Copy + Into<f64>>(probabilities: &[T]) -> f64 {
    let sum: f64 = probabilities
        .iter()
        .map(|&p| p.into())
        // 0 ln 0 = 0, the limit.
        .filter(|&p| p > 0.0)
        .map(|p| p * p.ln())
        .sum();
    // A row may sum to a little more than 1; its entropy is still not negative.
    if sum < 0.0 { -sum } else { 0.0 }
}

/// One point of a risk-coverage curve: what happens when only the most certain samples are answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RiskPoint {
    /// The share of samples answered, in (0, 1].
    pub coverage: f64,
    /// The share of wrong answers among them.
    pub risk: f64,
    /// The largest uncertainty answered: the threshold that gives this coverage.
    pub uncertainty: f64,
}

/// Risk against coverage, the most certain samples first.
///
/// Point k (of n) answers the k most certain samples. Samples of equal uncertainty have no order, so
/// inside such a tie the errors are spread evenly (the expectation over a random order): the curve does not
/// depend on the order in which samples came.
#[derive(Debug, Clone, PartialEq)]
pub struct RiskCoverage {
    points: Vec<RiskPoint>,
}

impl RiskCoverage {
    /// The curve of any uncertainty (entropy, variance, 1 - confidence) against whether each answer was right;
    /// `None` without samples. O(n log n).
    ///
    /// # Errors
    /// Arrays of different lengths, or a NaN.
    pub fn new(uncertainty: &[f64], correct: &[bool]) -> Result<Option<Self>, MetricsError> {
        Ok(Self::from_pairs(checked_pairs(uncertainty, correct)?))
    }

    /// From (uncertainty, correct) pairs without a NaN.
    fn from_pairs(mut pairs: Vec<(f64, bool)>) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let n = pairs.len() as f64;
        let mut points = Vec::with_capacity(pairs.len());
        for_each_risk(&mut pairs, |answered, risk, uncertainty| {
            points.push(RiskPoint { coverage: answered / n, risk, uncertainty });
        });
        Some(Self { points })
    }

    /// The curve, one point a sample, from the least coverage to all of it.
    pub fn points(&self) -> &[RiskPoint] {
        &self.points
    }

    /// AURC: the mean risk over the n coverages `k/n`. Lower is better; random abstention gives the error rate.
    pub fn area(&self) -> f64 {
        self.points.iter().map(|point| point.risk).sum::<f64>() / self.points.len() as f64
    }

    /// The point with at least the wanted share of samples answered (0 to 1; at least one sample always is).
    pub fn at_coverage(&self, coverage: f64) -> RiskPoint {
        let n = self.points.len();
        // A share such as 0.07 * 100 may come out a hair above a whole number: that hair is no sample.
        let answered = (coverage * n as f64 - 1e-9).ceil();
        // `as` saturates, and a NaN becomes 0: every f64 ends at a point.
        self.points[(answered as usize).clamp(1, n) - 1]
    }

    /// The point of the largest coverage whose risk is at most `risk`; `None` where no threshold keeps it.
    pub fn at_risk(&self, risk: f64) -> Option<RiskPoint> {
        // Inside a tie no threshold can stop, so only its last point can be chosen.
        let is_last_of_tie = |k: usize| {
            self.points.get(k + 1).is_none_or(|next| next.uncertainty != self.points[k].uncertainty)
        };
        (0..self.points.len())
            .rev()
            .find(|&k| self.points[k].risk <= risk && is_last_of_tie(k))
            .map(|k| self.points[k])
    }
}

/// AURC of any uncertainty: the mean risk over the coverages `k/n`, without keeping the curve. Errors are spread evenly
/// inside a tie, so that the order of samples does not matter. `None` without samples. O(n log n).
///
/// # Errors
/// Arrays of different lengths, or a NaN.
pub fn aurc(uncertainty: &[f64], correct: &[bool]) -> Result<Option<f64>, MetricsError> {
    Ok(area(checked_pairs(uncertainty, correct)?))
}

/// AURC of (uncertainty, correct) pairs without a NaN.
pub(crate) fn area(mut pairs: Vec<(f64, bool)>) -> Option<f64> {
    let mut sum = 0.0;
    for_each_risk(&mut pairs, |_, risk, _| sum += risk);
    (!pairs.is_empty()).then(|| sum / pairs.len() as f64)
}

fn checked_pairs(uncertainty: &[f64], correct: &[bool]) -> Result<Vec<(f64, bool)>, MetricsError> {
    if uncertainty.len() != correct.len() {
        return Err(MetricsError::Unpaired {
            left: "uncertainty",
            right: "correct",
            left_len: uncertainty.len(),
            right_len: correct.len(),
        });
    }
    if let Some(row) = uncertainty.iter().position(|value| value.is_nan()) {
        return Err(MetricsError::NotFinite { array: "uncertainty", row, column: 0, value: f64::NAN });
    }
    Ok(uncertainty.iter().copied().zip(correct.iter().copied()).collect())
}

/// How many are answered, the risk among them and the largest uncertainty answered: for each number of answers in turn.
fn for_each_risk(pairs: &mut [(f64, bool)], mut each: impl FnMut(f64, f64, f64)) {
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut answered, mut wrong_before) = (0.0, 0.0);
    for tie in pairs.chunk_by(|a, b| a.0 == b.0) {
        let wrong = tie.iter().filter(|(_, correct)| !correct).count() as f64;
        for taken in 1..=tie.len() {
            answered += 1.0;
            let errors = wrong_before + wrong * taken as f64 / tie.len() as f64;
            each(answered, errors / answered, tie[0].0);
        }
        wrong_before += wrong;
    }
}

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// The entropy of every row in nats (see [`entropy`]).
    pub fn entropies(&self) -> Vec<f64> {
        self.rows().map(|row| entropy(row.probabilities())).collect()
    }

    /// The risk-coverage curve when the least confident predictions (1 - largest probability) are declined
    /// first. `None` without samples. O(n log n).
    pub fn risk_coverage(&self) -> Option<RiskCoverage> {
        RiskCoverage::from_pairs(self.rows().map(|row| (1.0 - row.confidence(), row.is_correct())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(uncertainty: &[f64], correct: &[bool]) -> RiskCoverage {
        RiskCoverage::new(uncertainty, correct).unwrap().unwrap()
    }

    #[test]
    fn entropies_worked_by_hand() {
        assert_eq!(entropy(&[1.0, 0.0]), 0.0);
        assert!(entropy(&[1.0, 0.0]).is_sign_positive());
        assert!((entropy(&[0.5_f32, 0.5]) - 2.0_f64.ln()).abs() < 1e-15);
        // -(1/2 ln 1/2 + 1/4 ln 1/4 + 1/4 ln 1/4) = 1/2 ln 2 + 1/2 * 2 ln 2 = 3/2 ln 2.
        assert!((entropy(&[0.5, 0.25, 0.25]) - 1.5 * 2.0_f64.ln()).abs() < 1e-15);
        assert_eq!(entropy(&[1.0005]), 0.0);
    }

    #[test]
    fn a_curve_worked_by_hand() {
        // Sorted by uncertainty: 0.1 right, 0.2 right, 0.3 wrong, 0.4 right.
        // Risks: 0/1, 0/2, 1/3, 1/4. AURC = (0 + 0 + 1/3 + 1/4) / 4 = 7/48.
        let c = curve(&[0.3, 0.1, 0.4, 0.2], &[false, true, true, true]);
        let risks: Vec<f64> = c.points().iter().map(|p| p.risk).collect();
        assert_eq!(risks, [0.0, 0.0, 1.0 / 3.0, 0.25]);
        assert!((c.area() - 7.0 / 48.0).abs() < 1e-15);
        assert_eq!((c.at_coverage(0.5).risk, c.at_coverage(1.0).risk), (0.0, 0.25));
        assert_eq!(c.at_coverage(0.51).coverage, 0.75);
        assert_eq!(c.at_coverage(0.5).uncertainty, 0.2);
        assert_eq!(c.at_risk(0.0).unwrap().coverage, 0.5);
        assert_eq!(c.at_risk(0.3).unwrap().coverage, 1.0);
        assert_eq!(curve(&[0.1], &[false]).at_risk(0.5), None);
    }

    #[test]
    fn ties_share_their_errors() {
        // All alike, one of four wrong: every coverage has the same expected risk, a quarter.
        let c = curve(&[0.5; 4], &[true, false, true, true]);
        assert!(c.points().iter().all(|p| p.risk == 0.25));
        assert_eq!(c, curve(&[0.5; 4], &[true, true, true, false]));
        assert_eq!(c.at_risk(0.25).unwrap().coverage, 1.0);
        assert_eq!(c.at_risk(0.2), None);
    }

    #[test]
    fn any_coverage_finds_a_point() {
        let c = curve(&[0.1, 0.2], &[true, false]);
        for (coverage, found) in [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (2.0, 1.0), (f64::INFINITY, 1.0)]
        {
            assert_eq!(c.at_coverage(coverage).coverage, found, "{coverage}");
        }
    }

    #[test]
    fn mismatched_or_nan_input_is_refused() {
        assert_eq!(
            RiskCoverage::new(&[0.1], &[]).unwrap_err().to_string(),
            "uncertainty and correct must be equally long, found 1 and 0"
        );
        assert!(RiskCoverage::new(&[f64::NAN], &[true]).is_err());
        assert_eq!(RiskCoverage::new(&[], &[]).unwrap(), None);
        assert!(aurc(&[0.1], &[]).is_err() && aurc(&[f64::NAN], &[true]).is_err());
        assert_eq!(aurc(&[], &[]).unwrap(), None);
    }

    #[test]
    fn the_area_needs_no_curve_and_no_order() {
        let (mut uncertainty, mut correct) =
            (vec![0.3, 0.1, 0.4, 0.2, 0.2, 0.2], vec![false, true, true, true, false, true]);
        let found = aurc(&uncertainty, &correct).unwrap().unwrap();
        assert_eq!(found, curve(&uncertainty, &correct).area());
        uncertainty.rotate_left(4);
        correct.rotate_left(4);
        assert_eq!(aurc(&uncertainty, &correct).unwrap(), Some(found));
        // Wrong answers last is the best order, first the worst: 1/4 of (0 + 0 + 0 + 1/4) and of (1 + 1/2 + 1/3 + 1/4).
        assert_eq!(aurc(&[0.1, 0.2, 0.3, 0.4], &[true, true, true, false]).unwrap(), Some(0.0625));
        let worst = aurc(&[0.4, 0.3, 0.2, 0.1], &[true, true, true, false]).unwrap().unwrap();
        assert!((worst - 25.0 / 48.0).abs() < 1e-15);
    }
}
