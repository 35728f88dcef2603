//! The prior variance of personal posteriors, chosen by the federation on training data that clients set aside.
//!
//! A posterior is as wide as its prior allows, and how wide it should be differs between data: the best value on
//! Fashion-MNIST is twice that on MNIST. The marginal likelihood cannot decide: personal models sit at the prior's
//! mean, where it always prefers no variance at all. So for the first [`SHARE_OF_ROUNDS`] of the rounds every
//! client sets a fifth of its training data aside ([`SET_ASIDE_SHARE`](crate::client::SET_ASIDE_SHARE)). Then that round's participants personalise a model on the
//! rest, report how well posteriors of several prior variances predict what was set aside, and the server takes the
//! variance that does best on all of it. The remaining rounds train on everything.
//!
//! It costs one round's worth of tuning and posteriors, and an upload of a few numbers. Test data is not touched.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::admission::MAX_SAMPLES;
use super::exclusion::{Exclusion, LeftOut};
use crate::methods::PosteriorStructure;
use crate::wire::PriorScores;

/// Share of the rounds after which it is chosen.
const SHARE_OF_ROUNDS: f64 = 0.8;

/// Tried variances, in units of [`PosteriorStructure::typical_prior_variance`].
const SCALES: [f64; 12] = [0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.6, 0.8, 1.1, 1.5, 2.2, 4.0];

/// One line of the record of the round that chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorChoice {
    /// Samples that had been set aside.
    pub samples: usize,
    /// The prior variances tried.
    pub prior_variances: Vec<f64>,
    /// Mean negative log likelihood of those samples under each.
    pub nll: Vec<f64>,
    /// The variance chosen.
    pub chosen: f64,
}

/// More than any mean negative log likelihood of a sample that a usable model has.
const MAX_LOSS: f64 = 1e9;

/// The scores that can be used, and everyone else with a reason: of `participants` (ascending), in this round, once each.
pub(super) fn admit<'a>(
    candidates: usize,
    round: u64,
    participants: &[usize],
    scores: &'a [PriorScores],
) -> (Vec<&'a PriorScores>, Vec<LeftOut>) {
    let (mut usable, mut left_out, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for report in scores {
        let PriorScores { samples, losses, client, .. } = report;
        let largest = MAX_LOSS * *samples as f64;
        let refused = if participants.binary_search(client).is_err() {
            Some((Exclusion::Uninvited, "it was not asked to score prior variances".to_owned()))
        } else if report.round != round {
            Some((Exclusion::Stale, format!("its scores are for round {}", report.round)))
        } else if !known.insert(*client) {
            Some((Exclusion::Duplicate, "it had sent scores before; the first count".to_owned()))
        } else if losses.len() != candidates {
            Some((Exclusion::WrongShape, format!("it sent {} scores, expected {candidates}", losses.len())))
        } else if !(1..=MAX_SAMPLES).contains(samples) {
            Some((Exclusion::BadSamples, format!("it reports {samples} samples set aside")))
        } else if losses.iter().any(|loss| loss.is_nan() || loss.abs() > largest) {
            Some((Exclusion::NotFinite, "a score it sent is not finite, or far too large".to_owned()))
        } else {
            None
        };
        match refused {
            Some((kind, reason)) => left_out.push(LeftOut::new(*client, kind, reason)),
            None => usable.push(report),
        }
    }
    (usable, left_out)
}

/// The round after which the variance is chosen.
#[must_use]
pub fn prior_search_round(rounds: usize) -> u64 {
    ((rounds as f64 * SHARE_OF_ROUNDS).floor() as u64).max(1)
}

/// The variances to try, ascending.
#[must_use]
pub(super) fn candidates(structure: &PosteriorStructure) -> Vec<f64> {
    SCALES.iter().map(|scale| scale * structure.typical_prior_variance()).collect()
}

impl PriorChoice {
    /// Pools what clients report of all candidates; none where nobody had a sample.
    #[must_use]
    pub fn of(prior_variances: Vec<f64>, reports: &[&PriorScores]) -> Option<Self> {
        let samples: usize = reports.iter().map(|report| report.samples).sum();
        if samples == 0 {
            return None;
        }
        let pooled =
            |index: usize| reports.iter().map(|report| report.losses[index]).sum::<f64>() / samples as f64;
        let nll: Vec<f64> = (0..prior_variances.len()).map(pooled).collect();
        let chosen = minimum(&prior_variances, &nll)?;
        Some(Self { samples, prior_variances, nll, chosen })
    }
}

/// Where a parabola in the logarithm of the variance through the best candidate and its neighbours is lowest.
/// Losses on a few hundred samples are flat and noisy: between candidates it does not jump.
fn minimum(variances: &[f64], losses: &[f64]) -> Option<f64> {
    let finite = (0..variances.len()).filter(|&index| losses[index].is_finite());
    let best = finite.min_by(|&a, &b| losses[a].total_cmp(&losses[b]))?;
    let inner = best > 0 && best + 1 < variances.len();
    if !inner || !losses[best - 1].is_finite() || !losses[best + 1].is_finite() {
        return Some(variances[best]);
    }
    let x = |index: usize| variances[index].ln();
    let (left, right) = (x(best - 1) - x(best), x(best + 1) - x(best));
    let (below, above) = (losses[best - 1] - losses[best], losses[best + 1] - losses[best]);
    // loss = a x^2 + b x around the best candidate.
    let a = (above / right - below / left) / (right - left);
    let b = above / right - a * right;
    let shift = if a > 0.0 { (-b / (2.0 * a)).clamp(left, right) } else { 0.0 };
    Some((x(best) + shift).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_in_the_logarithm_is_found_exactly() {
        let variances = candidates(&PosteriorStructure::Diagonal);
        let losses: Vec<f64> = variances.iter().map(|v| 0.3 + 0.1 * (v / 0.08).ln().powi(2)).collect();
        let found = minimum(&variances, &losses).unwrap();
        assert!((found / 0.08 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn at_the_edge_the_edge_is_taken_and_what_is_not_finite_is_not() {
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]), Some(1.0));
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[0.3, 0.2, 0.1]), Some(3.0));
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[f64::NAN, 0.2, 0.3]), Some(2.0));
        assert_eq!(minimum(&[1.0, 2.0], &[f64::NAN, f64::NAN]), None);
    }

    #[test]
    fn reports_are_pooled_by_samples() {
        let scores = |samples, losses| PriorScores { round: 4, client: 0, samples, losses };
        let (one, three) = (scores(1, vec![5.0, 1.0]), scores(3, vec![3.0, 3.0]));
        let reports = [&one, &three];
        let choice = PriorChoice::of(vec![1.0, 2.0], &reports).unwrap();
        assert_eq!((choice.samples, choice.chosen), (4, 2.0));
        assert_eq!(choice.nll, [2.0, 1.0]);
        assert_eq!(PriorChoice::of(vec![1.0], &[&scores(0, vec![0.0])]), None);
        assert_eq!(PriorChoice::of(vec![1.0], &[]), None);
    }

    #[test]
    fn scores_that_cannot_be_used_are_named() {
        let good = |client| PriorScores { round: 8, client, samples: 5, losses: vec![1.0, 2.0] };
        let scores = [
            good(1),
            good(1),
            good(9),
            PriorScores { round: 7, ..good(2) },
            PriorScores { losses: vec![1.0], ..good(3) },
            PriorScores { losses: vec![1.0, f64::NAN], ..good(4) },
            PriorScores { losses: vec![1e300, -1e300], ..good(5) },
            PriorScores { samples: usize::MAX, ..good(6) },
            PriorScores { samples: 0, ..good(7) },
        ];
        let (usable, left_out) = admit(2, 8, &[1, 2, 3, 4, 5, 6, 7], &scores);
        assert_eq!(usable, [&scores[0]]);
        let kinds: Vec<(usize, Exclusion)> = left_out.iter().map(|out| (out.client, out.kind)).collect();
        use Exclusion::{BadSamples, Duplicate, NotFinite, Stale, Uninvited, WrongShape};
        let expected = [
            (1, Duplicate),
            (9, Uninvited),
            (2, Stale),
            (3, WrongShape),
            (4, NotFinite),
            (5, NotFinite),
            (6, BadSamples),
            (7, BadSamples),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn every_run_has_a_round_to_choose_in() {
        assert_eq!([1, 2, 10, 150].map(prior_search_round), [1, 1, 8, 120]);
    }
}
