//! Which classes are taken for which.

use crate::{MetricsError, Predictions, auroc};

/// How often each class was predicted for samples of each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfusionMatrix {
    classes: usize,
    /// Row after row: of the samples of a class, how many were predicted to be of each.
    counts: Vec<usize>,
}

impl ConfusionMatrix {
    /// A row for each true class, a column for each predicted one.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.counts.chunks_exact(self.classes)
    }
}

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// The confusion matrix: classes squared numbers. One pass.
    pub fn confusion(&self) -> ConfusionMatrix {
        let classes = self.classes();
        let mut counts = vec![0; classes * classes];
        for row in self.rows() {
            counts[row.label() * classes + row.predicted()] += 1;
        }
        ConfusionMatrix { classes, counts }
    }

    /// AUROC of each class, one against the rest: how likely a sample of the class has a higher probability of it than one
    /// of another class. `None` of a class that no sample is of, or all are of. O(classes n log n).
    pub fn class_aurocs(&self) -> Vec<Option<f64>> {
        let one = |class: usize| -> Result<Option<f64>, MetricsError> {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            for row in self.rows() {
                let score: f64 = row.probabilities()[class].into();
                if row.label() == class { own.push(score) } else { others.push(score) }
            }
            auroc(&others, &own)
        };
        // Probabilities were checked: none is NaN.
        (0..self.classes()).map(|class| one(class).ok().flatten()).collect()
    }

    /// The class that most samples are of; among equals the lowest. `None` without samples.
    pub fn most_frequent(&self) -> Option<usize> {
        let counts = self.class_counts();
        let samples = counts.iter().map(|class| class.samples);
        most_frequent(samples).filter(|_| !self.is_empty())
    }
}

/// The place of the largest count; among equals the first. `None` where all are 0.
pub fn most_frequent(counts: impl IntoIterator<Item = usize>) -> Option<usize> {
    let mut best = None;
    for (place, count) in counts.into_iter().enumerate() {
        if count > best.map_or(0, |(_, most)| most) {
            best = Some((place, count));
        }
    }
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        // Labels 0 0 1 1, predicted 0 1 1 0; class 2 is nowhere.
        let p = [0.6, 0.3, 0.1, 0.3, 0.6, 0.1, 0.2, 0.7, 0.1, 0.5, 0.4, 0.1];
        let rows = Predictions::new(&p, &[0, 0, 1, 1], 3).unwrap();
        let found = rows.confusion();
        assert_eq!(found.rows().collect::<Vec<_>>(), [&[1, 1, 0][..], &[1, 1, 0], &[0, 0, 0]]);
        // Class 0: own scores .6 .3, others .2 .5: three of four pairs won. Class 1: own .7 .4, others .3 .6: three.
        assert_eq!(rows.class_aurocs(), [Some(0.75), Some(0.75), None]);
        assert_eq!(rows.most_frequent(), Some(0));
        let nothing = Predictions::<f64>::new(&[], &[], 2).unwrap();
        assert_eq!((nothing.most_frequent(), nothing.class_aurocs()), (None, vec![None, None]));
    }

    #[test]
    fn the_most_frequent() {
        assert_eq!(most_frequent([1, 3, 3]), Some(1));
        assert_eq!(most_frequent([0, 0]), None);
        assert_eq!(most_frequent([]), None);
    }
}
