//! The classes that a client has training samples of, where its predictions are over these alone.

use fedsi_data::Targets;

use super::LocalData;

/// The classes that a personal model gives probabilities to; all others have probability 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnClasses(Vec<u32>);

impl OwnClasses {
    /// The classes of what a client trains on, or of that and what it has set aside. Never of what it holds out: scores there tell
    /// what a class costs that training does not have. None in a regression.
    #[must_use]
    pub fn of(data: &LocalData, with_set_aside: bool) -> Option<Self> {
        let mut all = Vec::new();
        let set_aside = with_set_aside.then_some(&data.set_aside);
        for samples in std::iter::once(&data.train).chain(set_aside) {
            match &samples.targets {
                Targets::Classes(labels) => all.extend_from_slice(labels),
                Targets::Values(_) => return None,
            }
        }
        all.sort_unstable();
        all.dedup();
        (!all.is_empty()).then_some(Self(all))
    }

    /// Classes from a file or message; none where they are not classes below `count`, ascending and at least one.
    #[must_use]
    pub fn new(classes: Vec<u32>, count: usize) -> Option<Self> {
        let is_ascending = classes.windows(2).all(|pair| pair[0] < pair[1]);
        let is_known = classes.last().is_some_and(|&last| (last as usize) < count);
        (is_ascending && is_known).then_some(Self(classes))
    }

    /// The classes, ascending.
    #[must_use]
    pub fn classes(&self) -> &[u32] {
        &self.0
    }

    /// Divides each row's probabilities of these classes by their sum, and sets the others to 0. A row that has nothing for
    /// these classes becomes uniform over them.
    pub(super) fn restrict(&self, probabilities: &mut [f64], classes: usize) {
        for row in probabilities.chunks_exact_mut(classes) {
            let sum: f64 = self.0.iter().map(|&class| row[class as usize]).sum();
            let mut own = self.0.iter().peekable();
            for (class, probability) in row.iter_mut().enumerate() {
                let is_own = own.next_if(|own| **own as usize == class).is_some();
                // A NaN stays one, to be noticed.
                *probability = match is_own {
                    false => 0.0,
                    true if sum == 0.0 => 1.0 / self.0.len() as f64,
                    true => *probability / sum,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fedsi_data::Samples;

    use super::*;

    #[test]
    fn other_classes_have_probability_0() {
        let own = OwnClasses::new(vec![0, 2], 3).unwrap();
        let mut rows = [0.3, 0.5, 0.2, 0.0, 1.0, 0.0];
        own.restrict(&mut rows, 3);
        assert_eq!(rows, [0.6, 0.0, 0.4, 0.5, 0.0, 0.5]);
        let mut unknown = [f64::NAN, 0.5, 0.5];
        own.restrict(&mut unknown, 3);
        assert!(unknown[0].is_nan());
    }

    #[test]
    fn they_are_those_that_a_client_learns() {
        let samples = |labels: &[u32]| Samples {
            count: labels.len(),
            inputs: vec![0.0; labels.len()],
            targets: Targets::Classes(labels.to_vec()),
        };
        let mut data = LocalData::all(samples(&[4, 1, 4]));
        (data.held_out, data.set_aside) = (samples(&[0]), samples(&[1, 2]));
        assert_eq!(OwnClasses::of(&data, true).unwrap().classes(), [1, 2, 4], "not of what is held out");
        assert_eq!(OwnClasses::of(&data, false).unwrap().classes(), [1, 4]);
        let values = Samples { count: 1, inputs: vec![0.0], targets: Targets::Values(vec![0.5]) };
        assert_eq!(OwnClasses::of(&LocalData::all(values), true), None);
    }

    #[test]
    fn what_a_file_says_is_checked() {
        for classes in [vec![], vec![1, 1], vec![2, 1], vec![0, 3]] {
            assert_eq!(OwnClasses::new(classes.clone(), 3), None, "{classes:?}");
        }
        assert_eq!(OwnClasses::new(vec![0, 2], 3).unwrap().classes(), [0, 2]);
    }
}
