//! Class by class: how many samples each has, and how well it is recognised.

use crate::Predictions;

/// How one class is predicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Samples of the class.
    pub samples: usize,
    /// Samples that are predicted to be of it.
    pub predicted: usize,
    /// Samples of it that are predicted to be of it.
    pub correct: usize,
}

impl ClassCounts {
    /// The share of predictions of this class that are right; `None` where it is never predicted.
    pub fn precision(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.correct as f64 / self.predicted as f64)
    }

    /// The share of its samples that are recognised; `None` where it has none.
    pub fn recall(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.correct as f64 / self.samples as f64)
    }
}

/// The mean recall over the classes that have samples: accuracy where every class weighs the same. `None` without
/// samples.
pub fn balanced_accuracy(classes: &[ClassCounts]) -> Option<f64> {
    let recalls = classes.iter().filter_map(ClassCounts::recall);
    let (sum, present) = recalls.fold((0.0, 0_usize), |(sum, count), recall| (sum + recall, count + 1));
    (present > 0).then(|| sum / present as f64)
}

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// The counts of every class, in order. One pass.
    pub fn class_counts(&self) -> Vec<ClassCounts> {
        let mut classes = vec![ClassCounts::default(); self.classes()];
        for row in self.rows() {
            let predicted = row.predicted();
            classes[row.label()].samples += 1;
            classes[predicted].predicted += 1;
            classes[predicted].correct += usize::from(predicted == row.label());
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        // Labels 0 0 0 1, predicted 0 0 1 1; class 2 is nowhere.
        let p = [0.8, 0.1, 0.1, 0.6, 0.3, 0.1, 0.2, 0.7, 0.1, 0.1, 0.8, 0.1];
        let classes = Predictions::new(&p, &[0, 0, 0, 1], 3).unwrap().class_counts();
        assert_eq!(classes[0], ClassCounts { samples: 3, predicted: 2, correct: 2 });
        assert_eq!((classes[0].precision(), classes[0].recall()), (Some(1.0), Some(2.0 / 3.0)));
        assert_eq!((classes[1].precision(), classes[1].recall()), (Some(0.5), Some(1.0)));
        assert_eq!((classes[2].precision(), classes[2].recall()), (None, None));
        // (2/3 + 1) / 2: the absent class does not count.
        assert_eq!(balanced_accuracy(&classes), Some(f64::midpoint(2.0 / 3.0, 1.0)));
        assert_eq!(balanced_accuracy(&[ClassCounts::default(); 4]), None);
    }
}
