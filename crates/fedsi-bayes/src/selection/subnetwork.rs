//! The parameters that were chosen.

use std::ops::Range;

use fedsi_nn::Layout;
use serde::Serialize;

use super::{Explanation, SelectionError};
/// The flat indices of chosen parameters: at least one, ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Subnetwork {
    indices: Vec<usize>,
}

impl Subnetwork {
    /// Checks indices from elsewhere (a file, a message) against the `range` they may come from. O(S).
    ///
    /// # Errors
    /// No index at all, one outside the range, one that is not above its predecessor.
    pub fn new(indices: Vec<usize>, range: Range<usize>) -> Result<Self, SelectionError> {
        if indices.is_empty() {
            return Err(SelectionError::Empty { candidates: range.len() });
        }
        if let Some(&index) = indices.iter().find(|index| !range.contains(index)) {
            return Err(SelectionError::OutOfRange { index, range });
        }
        if let Some(pair) = indices.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(SelectionError::NotAscending { first: pair[0], second: pair[1] });
        }
        Ok(Self { indices })
    }

    /// All parameters of a range that is not empty.
    ///
    /// # Errors
    /// An empty range.
    pub fn all(range: Range<usize>) -> Result<Self, SelectionError> {
        Self::new(range.clone().collect(), range)
    }

    /// The flat indices, ascending.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The same, without a copy.
    pub(crate) fn into_indices(self) -> Vec<usize> {
        self.indices
    }

    /// How many parameters were chosen.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there always is a parameter")]
    pub const fn len(&self) -> usize {
        self.indices.len()
    }

    /// Where in the network the chosen parameters lie, and how many have curvature. `range` is what they were chosen from.
    /// O(S + tensors).
    #[must_use]
    pub fn explain(&self, layout: &Layout, without_curvature: usize, range: Range<usize>) -> Explanation {
        Explanation::new(self, layout, without_curvature, &range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascending_indices_within_the_range_make_a_subnetwork() {
        assert_eq!(Subnetwork::new(vec![2, 5, 9], 2..10).unwrap().indices(), [2, 5, 9]);
        assert_eq!(Subnetwork::all(3..6).unwrap().indices(), [3, 4, 5]);
        let refused = |indices: &[usize]| Subnetwork::new(indices.to_vec(), 2..10).unwrap_err().to_string();
        assert_eq!(refused(&[]), "a subnetwork needs at least one parameter, found 0 (of 8 candidates)");
        assert_eq!(refused(&[3, 10]), "parameter 10 is not among the candidates 2..10");
        assert_eq!(refused(&[1, 3]), "parameter 1 is not among the candidates 2..10");
        assert_eq!(refused(&[3, 3]), "a subnetwork's indices must ascend, found 3 after 3");
        assert_eq!(refused(&[4, 3]), "a subnetwork's indices must ascend, found 3 after 4");
    }

    #[test]
    fn a_subnetwork_is_serialised_as_its_indices() {
        let subnetwork = Subnetwork::new(vec![0, 4], 0..5).unwrap();
        assert_eq!(serde_json::to_string(&subnetwork).unwrap(), "[0,4]");
    }
}
