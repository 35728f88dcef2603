//! A summary of a chosen subnetwork.

use std::fmt;
use std::ops::Range;

use fedsi_nn::Layout;
use serde::{Deserialize, Serialize};

use super::Subnetwork;
/// How many parameters of one tensor were chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorShare {
    /// PyTorch's name: `0.weight`, ...
    pub tensor: String,
    /// Chosen parameters.
    pub chosen: usize,
    /// Candidates in the tensor.
    pub of: usize,
}

/// A summary of a subnetwork; its `Display` is a small table for the terminal.
///
/// The posterior of a parameter without curvature is its prior: a subnetwork made of those carries no
/// information from the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Parameters chosen.
    pub size: usize,
    /// Parameters that could be chosen.
    pub candidates: usize,
    /// Chosen parameters whose diagonal curvature is zero (for rule `live`: those it had to fill up with).
    pub without_curvature: usize,
    /// The same as a share of the chosen, 0 to 1.
    pub zero_curvature: f64,
    /// The candidates' tensors in the network's order, those without a chosen parameter too.
    pub layers: Vec<TensorShare>,
}

impl Explanation {
    pub(super) fn new(
        subnetwork: &Subnetwork,
        layout: &Layout,
        without_curvature: usize,
        range: &Range<usize>,
    ) -> Self {
        let chosen = subnetwork.indices();
        let layers = layout
            .tensors()
            .iter()
            .map(|tensor| {
                let (start, end) = (tensor.range.start.max(range.start), tensor.range.end.min(range.end));
                let below = |limit: usize| chosen.partition_point(|&index| index < limit);
                TensorShare {
                    tensor: tensor.name.clone(),
                    chosen: below(end).saturating_sub(below(start)),
                    of: end.saturating_sub(start),
                }
            })
            .filter(|share| share.of > 0)
            .collect();
        Self {
            size: chosen.len(),
            candidates: range.len(),
            without_curvature,
            zero_curvature: ratio(without_curvature, chosen.len()),
            layers,
        }
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, candidates, without_curvature, zero_curvature, layers } = self;
        write!(f, "{size} of {candidates} parameters ({:.1}%), ", 100.0 * ratio(*size, *candidates))?;
        match without_curvature {
            0 => write!(f, "all with curvature")?,
            some => write!(
                f,
                "{some} of them ({:.1}%) without curvature: their posterior is their prior",
                100.0 * zero_curvature
            )?,
        }
        let digits = |largest: usize| largest.to_string().len();
        let name = layers.iter().map(|share| share.tensor.chars().count()).max().unwrap_or(0);
        let chosen = digits(layers.iter().map(|share| share.chosen).max().unwrap_or(0));
        let of = digits(layers.iter().map(|share| share.of).max().unwrap_or(0));
        for share in layers {
            let percent = 100.0 * ratio(share.chosen, share.of);
            write!(
                f,
                "\n  {:name$}  {:>chosen$} of {:>of$}  {percent:>5.1}%",
                share.tensor, share.chosen, share.of
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_nn::{LayerSpec, Network};

    #[test]
    fn an_explanation_counts_tensors_and_curvature() {
        let layers = [LayerSpec::Linear(5), LayerSpec::Relu, LayerSpec::Linear(2), LayerSpec::Linear(1)];
        let network = Network::new(&[3], &layers).unwrap();
        // 0.weight 0..15, 0.bias 15..20, 2.weight 20..30, 2.bias 30..32; the head is not a candidate.
        let body = network.layout().body();
        let subnetwork = Subnetwork::new(vec![0, 3, 14, 15, 31], body.clone()).unwrap();
        let explanation = subnetwork.explain(network.layout(), 2, body);
        assert_eq!((explanation.size, explanation.candidates), (5, 32));
        assert_eq!((explanation.without_curvature, explanation.zero_curvature), (2, 0.4));
        assert_eq!(
            explanation.to_string(),
            "5 of 32 parameters (15.6%), 2 of them (40.0%) without curvature: their posterior is their prior\n  \
             0.weight  3 of 15   20.0%\n  \
             0.bias    1 of  5   20.0%\n  \
             2.weight  0 of 10    0.0%\n  \
             2.bias    1 of  2   50.0%"
        );
        let json = serde_json::to_value(&explanation).unwrap();
        assert_eq!(json["layers"][1], serde_json::json!({ "tensor": "0.bias", "chosen": 1, "of": 5 }));
    }

    #[test]
    fn tensors_are_counted_within_the_candidates_only() {
        let network = Network::new(&[3], &[LayerSpec::Linear(5), LayerSpec::Linear(1)]).unwrap();
        let subnetwork = Subnetwork::new(vec![10, 16], 10..18).unwrap();
        let explanation = subnetwork.explain(network.layout(), 0, 10..18);
        let shares: Vec<_> = explanation.layers.iter().map(|s| (s.tensor.as_str(), s.chosen, s.of)).collect();
        assert_eq!(shares, [("0.weight", 1, 5), ("0.bias", 1, 3)]);
        assert!(explanation.to_string().starts_with("2 of 8 parameters (25.0%), all with curvature\n"));
    }
}
