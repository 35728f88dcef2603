//! A checked view of class probabilities and the labels that came true.

use crate::MetricsError;
use crate::error::check_length;

/// How far a row of probabilities may sum from 1.
///
/// Wide enough for rows stored in half precision or printed with four digits, narrow enough that logits,
/// percentages or rows of the wrong length never pass.
pub const ROW_SUM_TOLERANCE: f64 = 1e-3;

/// Probabilities (row-major, samples x classes, f32 or f64) with one label a row, checked once.
///
/// A view: it borrows both arrays and copies nothing. No samples at all is allowed (a client without test
/// data is no error); metrics of it are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predictions<'a, T = f64> {
    probabilities: &'a [T],
    labels: &'a [u32],
    classes: usize,
}

impl<'a, T: Copy + Into<f64>> Predictions<'a, T> {
    /// Checks the arrays: `labels.len()` rows of `classes` probabilities, each finite and not negative, a row
    /// summing to 1 within [`ROW_SUM_TOLERANCE`], and every label below `classes`.
    ///
    /// # Errors
    /// The first fault found, naming the row.
    pub fn new(probabilities: &'a [T], labels: &'a [u32], classes: usize) -> Result<Self, MetricsError> {
        if classes == 0 {
            return Err(MetricsError::NoColumns("class"));
        }
        check_length("probabilities", probabilities.len(), labels.len(), classes)?;
        for (row, (values, &label)) in probabilities.chunks_exact(classes).zip(labels).enumerate() {
            let mut sum = 0.0;
            for (class, &value) in values.iter().enumerate() {
                let value = value.into();
                if !value.is_finite() || value < 0.0 {
                    return Err(MetricsError::Probability { row, class, value });
                }
                sum += value;
            }
            if (sum - 1.0).abs() > ROW_SUM_TOLERANCE {
                return Err(MetricsError::RowSum { row, tolerance: ROW_SUM_TOLERANCE, sum });
            }
            if usize::try_from(label).map_or(true, |label| label >= classes) {
                return Err(MetricsError::Label { row, label, classes });
            }
        }
        Ok(Self { probabilities, labels, classes })
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The labels, one a row.
    pub fn labels(&self) -> &'a [u32] {
        self.labels
    }

    /// Every sample in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = PredictionRow<'a, T>> + use<'a, T> {
        let rows = self.probabilities.chunks_exact(self.classes);
        rows.zip(self.labels)
            .map(|(probabilities, &label)| PredictionRow { probabilities, label: label as usize })
    }

    /// The share of samples whose most probable class is the label; `None` without samples.
    pub fn accuracy(&self) -> Option<f64> {
        let correct = self.rows().filter(PredictionRow::is_correct).count();
        (!self.is_empty()).then(|| correct as f64 / self.len() as f64)
    }
}

/// One sample: its probabilities and its label.
#[derive(Debug, Clone, Copy)]
pub struct PredictionRow<'a, T> {
    probabilities: &'a [T],
    label: usize,
}

impl<'a, T: Copy + Into<f64>> PredictionRow<'a, T> {
    /// The probabilities, one a class.
    pub fn probabilities(&self) -> &'a [T] {
        self.probabilities
    }

    /// The class that came true.
    pub fn label(&self) -> usize {
        self.label
    }

    /// The most probable class; among equals the lowest.
    pub fn predicted(&self) -> usize {
        self.largest().0
    }

    /// The largest probability.
    pub fn confidence(&self) -> f64 {
        self.largest().1
    }

    /// The probability given to the label.
    pub fn probability_of_label(&self) -> f64 {
        self.probabilities[self.label].into()
    }

    /// Whether the most probable class is the label.
    pub fn is_correct(&self) -> bool {
        self.predicted() == self.label
    }

    /// The most probable class and its probability; among equals the lowest class.
    pub(crate) fn largest(&self) -> (usize, f64) {
        let mut best = (0, f64::NEG_INFINITY);
        for (class, &value) in self.probabilities.iter().enumerate() {
            let value = value.into();
            // Strictly greater: a tie stays with the lower class.
            if value > best.1 {
                best = (class, value);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bins;

    #[test]
    fn every_fault_is_named_with_its_row() {
        let check = |p: &[f64], labels: &[u32], classes| Predictions::new(p, labels, classes).unwrap_err();
        assert_eq!(check(&[], &[], 0), MetricsError::NoColumns("class"));
        assert_eq!(
            check(&[0.5, 0.5, 1.0], &[0, 1], 2).to_string(),
            "probabilities: expected 4 values (2 rows of 2), found 3"
        );
        assert_eq!(
            check(&[0.5, 0.5, 1.5, -0.5], &[0, 1], 2).to_string(),
            "row 1, class 1: a probability must be finite and not negative, found -0.5"
        );
        assert_eq!(
            check(&[0.5, 0.5, f64::NAN, 0.5], &[0, 1], 2).to_string(),
            "row 1, class 0: a probability must be finite and not negative, found NaN"
        );
        assert!(matches!(
            check(&[f64::INFINITY, 0.0], &[0], 2),
            MetricsError::Probability { row: 0, class: 0, .. }
        ));
        assert_eq!(
            check(&[0.5, 0.25], &[0], 2).to_string(),
            "row 0: probabilities must sum to 1 within 0.001, found 0.75"
        );
        assert_eq!(
            check(&[0.5, 0.5, 0.5, 0.5], &[0, 2], 2).to_string(),
            "row 1: label 2 is out of range, expected 0 to 1"
        );
        // A length that overflows is refused like any other.
        assert!(matches!(check(&[0.5, 0.5], &[0, 1], usize::MAX), MetricsError::Length { .. }));
    }

    #[test]
    fn rows_may_miss_one_by_the_tolerance_and_no_more() {
        for (sum, fine) in [(0.9995, true), (1.0005, true), (0.998, false), (1.002, false)] {
            assert_eq!(Predictions::new(&[sum - 0.25, 0.25], &[0], 2).is_ok(), fine, "{sum}");
        }
    }

    #[test]
    fn single_precision_is_read_without_a_copy() {
        let single = [0.25_f32, 0.75];
        let double = [0.25_f64, 0.75];
        let (a, b) =
            (Predictions::new(&single, &[1], 2).unwrap(), Predictions::new(&double, &[1], 2).unwrap());
        assert_eq!(a.scores(Bins::default()), b.scores(Bins::default()));
    }

    #[test]
    fn ties_go_to_the_lowest_class() {
        let p = [0.25, 0.375, 0.375, 0.2, 0.4, 0.4];
        let predictions = Predictions::new(&p, &[1, 2], 3).unwrap();
        let correct: Vec<bool> = predictions.rows().map(|row| row.is_correct()).collect();
        assert_eq!(correct, [true, false]);
        assert_eq!(predictions.accuracy(), Some(0.5));
    }

    #[test]
    fn no_samples_have_no_metrics() {
        let nothing = Predictions::<f64>::new(&[], &[], 3).unwrap();
        assert!(nothing.is_empty());
        assert_eq!(nothing.scores(Bins::default()), None);
        assert_eq!(nothing.accuracy(), None);
        assert!(nothing.risk_coverage().is_none());
        assert!(nothing.entropies().is_empty());
        assert_eq!(nothing.reliability(Bins::default()).samples(), 0);
    }

    #[test]
    fn one_class_is_always_right() {
        let predictions = Predictions::new(&[1.0, 1.0], &[0, 0], 1).unwrap();
        let scores = predictions.scores(Bins::default()).unwrap();
        assert_eq!((scores.accuracy, scores.ece, scores.brier, scores.nll), (1.0, 0.0, 0.0, 0.0));
    }
}
