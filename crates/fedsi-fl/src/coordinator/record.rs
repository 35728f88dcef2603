//! What is recorded of rounds.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::client::{LaplaceSummary, PosteriorSummary, Validation};
use crate::server::{CalibrationChoice, Exclusion, LeftOut};
use crate::wire::{Traffic, Variances};

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Counted from 1.
    pub round: u64,
    /// The mode that was trained, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<usize>,
    /// Mean training loss a sample over the last local epoch, averaged over the participants that were used.
    pub train_loss: Option<f64>,
    /// Scores on held-out training data, where `validation.fraction` is above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// What participants' posteriors were like, for the methods that infer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetwork: Option<SubnetworkRecord>,
    /// What the federation chose on data set aside, in the round that did.
    #[serde(default, deserialize_with = "choices", skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<CalibrationChoice>,
    /// Wall clock by phase.
    pub seconds: RoundSeconds,
    /// Who was drawn.
    pub participants: Vec<usize>,
    /// Whose update was not used, and why.
    pub left_out: Vec<LeftOut>,
    /// Whether too few updates could be used, and the server kept what it had.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// The privacy bound epsilon after the rounds so far, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// What travelled.
    pub bytes: Traffic,
}

/// For serde: choices in the present form. Runs of 0.1 recorded one choice in a form of its own, which nothing reads.
fn choices<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<CalibrationChoice>, D::Error> {
    match serde_json::Value::deserialize(input)? {
        list @ serde_json::Value::Array(_) => serde_json::from_value(list).map_err(D::Error::custom),
        _ => Ok(Vec::new()),
    }
}

/// For serde: whether to leave a flag out.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's own signature
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Wall clock of a round, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundSeconds {
    /// Local training: the round's work less its posteriors.
    pub train: f64,
    /// Posteriors: their share of what all clients did, times the wall clock of that; and, in the round that does,
    /// what the federation chooses on data set aside.
    pub posterior: f64,
    /// Everything the server does.
    pub aggregate: f64,
}

/// What the posteriors of a round's participants were like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubnetworkRecord {
    /// Mean share of one participant's subnetwork that another has too; 0 with one participant.
    pub overlap: f64,
    /// Mean share of chosen parameters without curvature: their posterior is their prior.
    pub zero_curvature: f64,
    /// Mean posterior variance of the chosen parameters.
    pub mean_variance: f64,
    /// Mean rank of what the data added to the prior.
    pub rank: f64,
    /// The worst factor, less one, by which a variance may be too large.
    pub certificate: f64,
}

impl SubnetworkRecord {
    /// The figures of a round. `sent` are the participants' variances of some of `size` parameters.
    pub(crate) fn of(posteriors: &[PosteriorSummary], sent: &[&Variances], size: usize) -> Option<Self> {
        let PosteriorSummary { variance, laplace, .. } = PosteriorSummary::of(posteriors)?;
        let LaplaceSummary { zero_curvature, rank, certificate, .. } = laplace?;
        let overlap = overlap(sent, size);
        Some(Self { overlap, zero_curvature, mean_variance: variance, rank, certificate })
    }
}

/// Mean over ordered pairs of participants of the share of the first's choice that the second made too. Cost:
/// one pass over all choices, not over all pairs.
fn overlap(sent: &[&Variances], size: usize) -> f64 {
    let mut times = vec![0_u32; size];
    for (index, _) in sent.iter().flat_map(|one| one.pairs()) {
        times[index] += 1;
    }
    let others = sent.len().saturating_sub(1) as f64;
    let chosen: usize = sent.iter().map(|one| one.values.len()).sum();
    let shared: f64 = times.iter().map(|&t| f64::from(t) * (f64::from(t) - 1.0)).sum();
    if others == 0.0 || chosen == 0 { 0.0 } else { shared / (chosen as f64 * others) }
}

/// Updates that were left out and rounds that were skipped, counted over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Messages that were not used, or never came, by kind.
    pub left_out: BTreeMap<Exclusion, u64>,
    /// Rounds in which the server kept what it had.
    pub skipped_rounds: u64,
}

impl Tally {
    /// Counts one more round.
    pub fn add(&mut self, record: &RoundRecord) {
        for out in &record.left_out {
            *self.left_out.entry(out.kind).or_default() += 1;
        }
        self.skipped_rounds += u64::from(record.skipped);
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.skipped_rounds == 0
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.left_out.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_are_counted_by_kind() {
        let left_out = BTreeMap::from([(Exclusion::TooLarge, 2), (Exclusion::Late, 3)]);
        let tally = Tally { left_out, skipped_rounds: 1 };
        let text = serde_json::to_string(&tally).unwrap();
        assert_eq!(text, r#"{"left_out":{"late":3,"too-large":2},"skipped_rounds":1}"#);
        assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), tally);
        assert_eq!((tally.total(), tally.is_empty(), Tally::default().is_empty()), (5, false, true));
    }

    #[test]
    fn overlap_is_the_share_of_choices_in_common() {
        let of = |chosen: &[&[u32]]| {
            let variances = |one: &&[u32]| Variances {
                selected: (one.len() < 4).then(|| one.to_vec()),
                values: vec![1.0; one.len()],
            };
            let sent: Vec<Variances> = chosen.iter().map(variances).collect();
            overlap(&sent.iter().collect::<Vec<_>>(), 4)
        };
        assert_eq!(of(&[&[0, 1], &[0, 1], &[0, 1]]), 1.0);
        assert_eq!(of(&[&[0, 1], &[2, 3]]), 0.0);
        assert_eq!(of(&[&[0, 1], &[1, 2]]), 0.5);
        assert_eq!(of(&[&[0, 1, 2, 3], &[0, 1, 2, 3]]), 1.0, "everything, without indices");
        assert_eq!(of(&[&[0, 1]]), 0.0, "nobody to share with");
        assert_eq!(of(&[]), 0.0);
    }
}
