//! Abstaining by a threshold on uncertainty: finding one, and judging it on samples that it was not found on.

use crate::{MetricsError, RiskCoverage};

/// What abstaining should achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbstentionGoal {
    /// Predict for this share of the samples, those of the lowest uncertainty.
    Coverage(f64),
    /// Predict for as many as possible while at most this share of the predictions is wrong.
    Risk(f64),
}

impl RiskCoverage {
    /// The largest uncertainty that is answered under this goal; `None` where no threshold keeps it.
    pub fn threshold(&self, goal: AbstentionGoal) -> Option<f64> {
        match goal {
            AbstentionGoal::Coverage(share) => Some(self.at_coverage(share).uncertainty),
            AbstentionGoal::Risk(risk) => self.at_risk(risk).map(|point| point.uncertainty),
        }
    }
}

/// What thresholds did on samples that they were not found on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Samples judged.
    pub samples: usize,
    /// Those that were answered.
    pub answered: usize,
    /// Wrong answers among them.
    pub wrong: usize,
}

impl Judgement {
    /// The share of samples that were answered.
    pub fn coverage(&self) -> f64 {
        self.answered as f64 / self.samples.max(1) as f64
    }

    /// The share of wrong answers; `None` where nothing was answered.
    pub fn risk(&self) -> Option<f64> {
        (self.answered > 0).then(|| self.wrong as f64 / self.answered as f64)
    }
}

/// Judges thresholds by cross-fitting: one is found on every other sample and judged on the rest, then the other way
/// round, so that every sample is judged once by a threshold that did not see it. A threshold for a risk that is judged
/// on the samples it was chosen on looks better than it is: it stops just where errors happen to be few.
///
/// Which half a sample is in depends on its place alone: nothing is random. Samples that come client after client, or
/// class after class, are halved within each. `None` of fewer than two samples. O(n log n).
///
/// # Errors
/// Arrays of different lengths, or a NaN.
pub fn cross_fitted(
    uncertainty: &[f64],
    correct: &[bool],
    goal: AbstentionGoal,
) -> Result<Option<Judgement>, MetricsError> {
    // Lengths and values are checked on the whole, so that rows are named as they were given.
    if RiskCoverage::new(uncertainty, correct)?.is_none_or(|curve| curve.points().len() < 2) {
        return Ok(None);
    }
    let half = |first: usize| -> (Vec<f64>, Vec<bool>) {
        let rows = uncertainty.iter().copied().zip(correct.iter().copied());
        rows.skip(first).step_by(2).unzip()
    };
    let mut judged = Judgement::default();
    for first in 0..2 {
        let ((own, right), (others, others_right)) = (half(first), half(1 - first));
        let Some(curve) = RiskCoverage::new(&others, &others_right)? else { continue };
        let most = curve.threshold(goal);
        judged.samples += own.len();
        for (uncertainty, right) in own.into_iter().zip(right) {
            if most.is_some_and(|most| uncertainty <= most) {
                judged.answered += 1;
                judged.wrong += usize::from(!right);
            }
        }
    }
    Ok(Some(judged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AbstentionGoal::{Coverage, Risk};

    #[test]
    fn worked_by_hand() {
        // Halves: places 0, 2, 4 with uncertainties 1 3 5 (the last wrong), and 1, 3, 5 with 2 4 6 (the last wrong).
        let (uncertainty, correct) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [true, true, true, true, false, false]);
        // No error: thresholds 3 and 4. The second half is answered up to 3 (2), the first up to 4 (1, 3).
        let found = cross_fitted(&uncertainty, &correct, Risk(0.0)).unwrap().unwrap();
        assert_eq!(found, Judgement { samples: 6, answered: 3, wrong: 0 });
        // A third of three is one: thresholds 5 and 6. The second half up to 5: 2, 4; the first up to 6: 1, 3, 5.
        let found = cross_fitted(&uncertainty, &correct, Risk(0.34)).unwrap().unwrap();
        assert_eq!(found, Judgement { samples: 6, answered: 5, wrong: 1 });
        assert_eq!((found.coverage(), found.risk()), (5.0 / 6.0, Some(0.2)));
        // Two of three: thresholds 3 and 4 again.
        assert_eq!(cross_fitted(&uncertainty, &correct, Coverage(0.6)).unwrap().unwrap().answered, 3);
    }

    #[test]
    fn what_no_threshold_keeps_is_not_answered() {
        let found = cross_fitted(&[0.1, 0.2, 0.3], &[false; 3], Risk(0.2)).unwrap().unwrap();
        assert_eq!((found, found.risk()), (Judgement { samples: 3, answered: 0, wrong: 0 }, None));
        assert_eq!(cross_fitted(&[0.1], &[true], Coverage(0.5)).unwrap(), None);
        assert_eq!(cross_fitted(&[], &[], Coverage(0.5)).unwrap(), None);
        assert!(cross_fitted(&[f64::NAN, 0.1], &[true, true], Coverage(0.5)).is_err());
        assert!(cross_fitted(&[0.1], &[], Coverage(0.5)).is_err());
    }

    /// Errors without any pattern: a threshold judged where it was found keeps its promise, and elsewhere it does not.
    #[test]
    fn judging_where_it_was_found_is_too_good() {
        let mut state = 5_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut kept, mut runs, mut judged) = (0.0, 0.0, Judgement::default());
        for _ in 0..200 {
            let uncertainty: Vec<f64> = (0..200).map(|_| draw()).collect();
            let correct: Vec<bool> = (0..200).map(|_| draw() > 0.1).collect();
            let curve = RiskCoverage::new(&uncertainty, &correct).unwrap().unwrap();
            let Some(own) = curve.at_risk(0.05) else { continue };
            let found = cross_fitted(&uncertainty, &correct, Risk(0.05)).unwrap().unwrap();
            judged.answered += found.answered;
            judged.wrong += found.wrong;
            kept += own.risk;
            runs += 1.0;
        }
        let (kept, honest) = (kept / runs, judged.risk().unwrap());
        // A tenth of all answers is wrong whatever the threshold.
        assert!(kept < 0.05 && (honest - 0.1).abs() < 0.02, "{kept} and {honest}");
    }
}
