//! Classes given by their numbers: how many there are follows from the largest, so one stray number must not decide.

use std::path::PathBuf;

use super::arrays::Array;
use crate::error::DataError;

/// Classes there may be for each one that has a sample, and beyond that: samples of a few of a hundred known classes are
/// usual, one number of its own far above all others is a mistake or a mark ("255: ignore").
const CLASSES_PER_PRESENT: usize = 10;
const SPARE_CLASSES: usize = 100;

/// The labels of one or more arrays, row after row, and where they come from.
#[derive(Debug)]
pub(crate) struct NumberedClasses {
    labels: Vec<u32>,
    /// Each array's file, what it is called, and its rows.
    arrays: Vec<(PathBuf, String, usize)>,
}

impl NumberedClasses {
    /// The numbers of an array as classes counted from 0.
    pub(crate) fn of(array: Array) -> Result<Self, DataError> {
        let (path, place) = (array.path.clone(), array.place.clone());
        let labels = array.classes()?;
        Ok(Self { arrays: vec![(path, place, labels.len())], labels })
    }

    /// Appends another array's.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.labels.append(&mut other.labels);
        self.arrays.append(&mut other.arrays);
    }

    /// The labels alone, where somebody else says how many classes there are.
    pub(crate) fn into_labels(self) -> Vec<u32> {
        self.labels
    }

    /// The labels, and how many classes there are. One pass, and a bit a class.
    ///
    /// # Errors
    /// A largest class far above the number of classes that have a sample: memory for all classes below it would be taken
    /// at every step, for nothing.
    pub(crate) fn counted(self) -> Result<(Vec<u32>, usize), DataError> {
        let Some(largest) = self.labels.iter().copied().max() else { return Ok((self.labels, 0)) };
        let classes = largest as usize + 1;
        let mut seen = vec![false; classes];
        for &label in &self.labels {
            seen[label as usize] = true;
        }
        let present = seen.iter().filter(|&&seen| seen).count();
        if classes <= present.saturating_mul(CLASSES_PER_PRESENT).saturating_add(SPARE_CLASSES) {
            return Ok((self.labels, classes));
        }
        let missing = seen.iter().position(|&seen| !seen).unwrap_or(0);
        let mut row = self.labels.iter().position(|&label| label == largest).unwrap_or(0);
        let mut arrays = self.arrays.iter();
        let (path, place) = loop {
            match arrays.next() {
                Some((path, place, rows)) if row < *rows => {
                    break (path.clone(), format!("{place}, row {row}"));
                }
                Some((_, _, rows)) => row -= rows,
                None => break (PathBuf::new(), "the labels".to_owned()),
            }
        };
        let of = if present == 1 {
            "only one class has".to_owned()
        } else {
            format!("only {present} classes have")
        };
        Err(DataError::malformed(
            &path,
            place,
            format!("class {largest}"),
            format!("classes counted from 0 without large gaps: {of} a sample, and class {missing} has none"),
            "remove such rows, number the classes from 0, or use a CSV for named classes",
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::read::arrays::Numbers;

    fn numbered(name: &str, labels: &[i64]) -> NumberedClasses {
        NumberedClasses::of(Array {
            path: Path::new(name).to_path_buf(),
            place: "the array".to_owned(),
            shape: vec![labels.len()],
            numbers: Numbers::Integers(labels.to_vec()),
        })
        .unwrap()
    }

    #[test]
    fn a_stray_label_is_named_with_its_row_in_its_file() {
        for stray in [65_535, 255] {
            let mut all = numbered("train.npy", &[0, 1, 2, 1]);
            all.append(numbered("test.npy", &[1, stray, 2]));
            let error = all.counted().unwrap_err().to_string();
            let expected = format!(
                "test.npy: the array, row 1: found class {stray}, expected classes counted from 0 without large gaps: \
                 only 4 classes have a sample, and class 3 has none;"
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = numbered("y.npy", &[9000]).counted().unwrap_err().to_string();
        assert!(error.contains("row 0") && error.contains("only one class has a sample"), "{error}");
    }

    #[test]
    fn a_few_samples_of_many_known_classes_are_usual() {
        assert_eq!(numbered("y.npy", &[0, 99, 3]).counted().unwrap(), (vec![0, 99, 3], 100));
        assert_eq!(numbered("y.npy", &[]).counted().unwrap(), (vec![], 0));
        let every_fifth: Vec<i64> = (0..1000).map(|class| 5 * class).collect();
        assert_eq!(numbered("y.npy", &every_fifth).counted().unwrap().1, 4996);
    }
}
