//! What the federation chooses on training data that clients set aside: the prior variance of personal posteriors, the
//! temperature, and what averaging over modes calls for.
//!
//! How wide a posterior should be, or how hot a softmax, differs between data, and training data that was learned from does
//! not tell. So for the first [`SHARE_OF_ROUNDS`] of the rounds every client sets a share of its training data aside, each
//! mode of a mixture another part. Then that round's participants personalise models on the rest and report how well
//! candidates predict what was set aside. The remaining rounds train on everything.
//!
//! Two estimates are combined, the geometric mean of both: where the likelihood is largest, and where the mean confidence
//! equals the accuracy. Each is noisy on a few hundred samples, with errors of its own. A weak prior on the logarithm keeps a
//! handful of samples from deciding for no uncertainty at all. Where the best candidate is the
//! first or last, the server asks again about a grid that reaches further.
//!
//! Where the modes of a mixture set the same samples aside, their average is what is scored. Where each sets others aside,
//! there are more samples, but each mode is scored by itself, and the average of well-calibrated modes is too unsure. By how
//! much is measured where clients have samples enough ([`average`]). Where they do not it is sharpened by a rule, the more the
//! harder the data is: [`AVERAGING`].
//!
//! It costs one round's worth of tuning and posteriors, and an upload of a few numbers. Test data is not touched.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::admission::MAX_SAMPLES;
use super::average;
use super::estimate::{Pooled, Prior, combined, jackknife, positions};
use super::exclusion::{Exclusion, LeftOut};
use crate::calibration::Candidates;
use crate::methods::Modes;
use crate::wire::CalibrationScores;

/// Share of the rounds after which the federation chooses.
const SHARE_OF_ROUNDS: f64 = 0.8;

/// More than any mean score of a sample that a usable model has.
const MAX_SCORE: f64 = 1e9;

/// How often a grid is moved before an answer at its edge is taken.
const MAX_GRIDS: usize = 4;

/// By how much the logarithm of the best temperature of an average over many calibrated modes lies below theirs, for every nat
/// of their mean negative log likelihood on what they set aside; over K modes by this times `1 - 1/K`. The harder the data, the
/// more modes disagree where none of them is sure, and the surer their average may be. Measured where posteriors calibrate
/// modes, on seeds 1 to 6 of MNIST and Fashion-MNIST (0.05 and 0.0 with four modes, at 0.16 and 0.3 nats) and seeds 1 and 2 of
/// CIFAR-10 (0.17 to 0.22, at 1.06 nats), not derived (docs/uncertainty.md); a formula from the modes' disagreement gave four times as much.
const AVERAGING: f64 = 0.2;

/// What is added to it where a temperature calibrates modes: posteriors are wider where modes disagree, a temperature is not.
/// Measured on MNIST and Fashion-MNIST: 0.05 with two modes in all, 0.06 to 0.10 with four, 0.11 with eight.
const AVERAGING_TEMPERED: f64 = 0.07;

/// The largest negative log likelihood that counts: beyond it models know nothing that averaging could make surer.
const HARDEST: f64 = 2.0;

/// Half the width of a 95% interval in standard errors.
pub(super) const INTERVAL: f64 = 1.96;

/// One line of the record of the round that chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationChoice {
    /// What was chosen: prior variance or temperature.
    pub what: String,
    /// Samples that had been set aside, counted once for each mode.
    pub samples: usize,
    /// The values tried.
    pub candidates: Vec<f64>,
    /// Mean negative log likelihood of those samples under each.
    pub nll: Vec<f64>,
    /// Mean confidence less accuracy under each.
    pub excess_confidence: Vec<f64>,
    /// Where the likelihood is largest.
    pub by_likelihood: f64,
    /// Where mean confidence equals accuracy, where there is such a value among the candidates.
    pub by_confidence: Option<f64>,
    /// The value chosen.
    pub chosen: f64,
    /// A 95% interval of it, by leaving out one client at a time; none with one client.
    pub interval: Option<[f64; 2]>,
    /// The temperature of the average over modes that were scored one by one.
    pub mixture_temperature: Option<f64>,
    /// Where averages over two modes were scored: the same samples under each mode by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<ScoresAlone>,
}

/// What modes by themselves score on the samples on which their averages were scored, under the same temperatures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoresAlone {
    /// Mean negative log likelihood.
    pub nll: Vec<f64>,
    /// Mean confidence less accuracy.
    pub excess_confidence: Vec<f64>,
    /// The temperature that is best for them.
    pub temperature: f64,
}

/// A search in progress: what is chosen, around which value, and how often the grid was moved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    kind: SearchKind,
    modes: Modes,
    typical: f64,
    centre: f64,
    grids: usize,
    /// Of averages, at the end: the temperature that was best for modes alone when they were chosen.
    before: Option<f64>,
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchKind {
    PriorVariance,
    Temperature,
    /// Of averages over modes.
    AverageTemperature,
}

/// What became of a search.
pub(super) enum SearchOutcome {
    /// The best candidate was at the grid's edge: ask again.
    Again(Search),
    /// The choice.
    Chosen(CalibrationChoice),
}

impl Search {
    /// A search around a typical prior variance.
    pub(super) const fn prior_variance(typical: f64, modes: Modes) -> Self {
        Self { kind: SearchKind::PriorVariance, modes, typical, centre: typical, grids: 1, before: None }
    }

    /// A search around the temperature 1.
    pub(super) const fn temperature(modes: Modes) -> Self {
        Self { kind: SearchKind::Temperature, modes, typical: 1.0, centre: 1.0, grids: 1, before: None }
    }

    /// A search for the temperature of the average over modes; at the end of training with the one that was best for modes
    /// alone when they were chosen.
    pub(super) const fn average_temperature(modes: Modes, before: Option<f64>) -> Self {
        let kind = SearchKind::AverageTemperature;
        Self { kind, modes, typical: 1.0, centre: 1.0, grids: 1, before }
    }

    /// A weak prior on the logarithm: of prior variances around the typical one; of temperatures around 1, and less wide
    /// below it, because networks are too sure far more often than not sure enough.
    fn prior(&self) -> Prior {
        match self.kind {
            SearchKind::PriorVariance => Prior { centre: self.typical.ln(), below: 3.0, above: 3.0 },
            SearchKind::Temperature => Prior { centre: 0.0, below: 0.5, above: 1.5 },
            SearchKind::AverageTemperature => average::PRIOR,
        }
    }

    /// How much surer the average of many modes may be than modes that have this negative log likelihood on what they set aside.
    const fn averaging(&self, nll: f64) -> f64 {
        let hardness = AVERAGING * nll.clamp(0.0, HARDEST);
        match self.kind {
            SearchKind::PriorVariance => hardness,
            SearchKind::Temperature | SearchKind::AverageTemperature => AVERAGING_TEMPERED + hardness,
        }
    }

    /// What it is for.
    pub(super) const fn kind(&self) -> SearchKind {
        self.kind
    }

    /// The values to try, ascending. Prior variances from a thousandth to a hundred times the centre, and 0; temperatures
    /// from a seventh to ten times it.
    pub(super) fn candidates(&self) -> Candidates {
        let grid = |from: f64, to: f64, steps: usize| {
            (0..=steps).map(move |step| from * (to / from).powf(step as f64 / steps as f64))
        };
        match self.kind {
            SearchKind::PriorVariance => {
                let values = grid(1e-3 * self.centre, 1e2 * self.centre, 22);
                Candidates::PriorVariances(std::iter::once(0.0).chain(values).collect())
            }
            SearchKind::Temperature => {
                Candidates::Temperatures(grid(0.14 * self.centre, 10.0 * self.centre, 32).collect())
            }
            SearchKind::AverageTemperature => Candidates::AverageTemperatures(grid(0.25, 4.0, 40).collect()),
        }
    }

    /// Pools what clients report of the candidates; none where nobody had a sample.
    pub(super) fn conclude(self, reports: &[&CalibrationScores]) -> Option<SearchOutcome> {
        let candidates = self.candidates();
        let values = candidates.values();
        let positions = positions(values);
        if self.kind == SearchKind::AverageTemperature {
            let choice = average::conclude(&candidates, self.modes.count, self.before, reports);
            return choice.map(SearchOutcome::Chosen);
        }
        let prior = self.prior();
        let plain = Pooled::of(values.len(), reports.iter().copied())?;
        let (samples, nll) = (plain.samples, plain.means(|score| score.loss));
        let pooled = plain.with_prior(&positions, prior);
        let best = pooled.best()?;
        // Below the smallest prior variance there is 0, which is among them.
        let below = best == 0 && self.kind == SearchKind::Temperature;
        if (below || best + 1 == values.len()) && self.grids < MAX_GRIDS {
            return Some(SearchOutcome::Again(Self { centre: values[best], grids: self.grids + 1, ..self }));
        }
        let (by_likelihood, by_confidence) = pooled.estimates(&positions)?;
        let position = combined(by_likelihood, by_confidence);
        let smallest = positions[0].exp();
        let value = |position: f64| position.exp().max(smallest);
        let interval = jackknife(&positions, prior, reports)
            .map(|error| [position - INTERVAL * error, position + INTERVAL * error].map(value));
        let Modes { count, .. } = self.modes;
        let mixture_temperature = self
            .modes
            .are_set_apart()
            .then(|| (-self.averaging(nll[best]) * (1.0 - 1.0 / count as f64)).exp());
        let chosen = value(position);
        if best + 1 == values.len() || below {
            tracing::warn!(
                "the best {} that was tried is the last, {chosen:.3}: it is taken",
                candidates.name()
            );
        }
        Some(SearchOutcome::Chosen(CalibrationChoice {
            what: candidates.name().to_owned(),
            samples,
            nll,
            excess_confidence: pooled.means(|score| score.excess),
            candidates: values.to_vec(),
            by_likelihood: value(by_likelihood),
            by_confidence: by_confidence.map(value),
            chosen,
            interval,
            mixture_temperature,
            alone: None,
        }))
    }
}

/// The round after which the federation chooses.
#[must_use]
pub fn calibration_round(rounds: usize) -> u64 {
    ((rounds as f64 * SHARE_OF_ROUNDS).floor() as u64).max(1)
}

/// The scores that can be used, and everyone else with a reason: of `participants` (ascending), in this round, once each.
pub(super) fn admit<'a>(
    candidates: usize,
    round: u64,
    participants: &[usize],
    scores: &'a [CalibrationScores],
) -> (Vec<&'a CalibrationScores>, Vec<LeftOut>) {
    let (mut usable, mut left_out, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for report in scores {
        let CalibrationScores { samples, candidates: found, client, .. } = report;
        let largest = MAX_SCORE * *samples as f64;
        let refused = if participants.binary_search(client).is_err() {
            Some((Exclusion::Uninvited, "it was not asked to score candidates".to_owned()))
        } else if report.round != round {
            Some((Exclusion::Stale, format!("its scores are for round {}", report.round)))
        } else if !known.insert(*client) {
            Some((Exclusion::Duplicate, "it had sent scores before; the first count".to_owned()))
        } else if found.len() != candidates {
            Some((Exclusion::WrongShape, format!("it sent {} scores, expected {candidates}", found.len())))
        } else if !(1..=MAX_SAMPLES).contains(samples) {
            Some((Exclusion::BadSamples, format!("it reports {samples} samples set aside")))
        } else if !found.iter().all(|score| score.is_within(largest)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::CandidateScore;

    fn report(client: usize, samples: usize, candidates: Vec<CandidateScore>) -> CalibrationScores {
        CalibrationScores { round: 8, client, samples, candidates }
    }

    /// Reports of one client whose loss and excess are functions of the logarithm of the candidate.
    fn scored(search: &Search, of: impl Fn(f64) -> CandidateScore) -> CalibrationScores {
        // So many samples that the prior does not matter.
        let summed = |x| {
            let CandidateScore { loss, excess } = of(x);
            CandidateScore { loss: 1e9 * loss, excess: 1e9 * excess }
        };
        let scores = positions(search.candidates().values()).into_iter().map(summed).collect();
        report(0, 1_000_000_000, scores)
    }

    fn conclude(search: Search, of: impl Fn(f64) -> CandidateScore) -> SearchOutcome {
        let scores = scored(&search, of);
        search.conclude(&[&scores]).unwrap()
    }

    fn chosen(search: Search, of: impl Fn(f64) -> CandidateScore) -> CalibrationChoice {
        match conclude(search, of) {
            SearchOutcome::Chosen(choice) => choice,
            SearchOutcome::Again(search) => panic!("asks again: {search:?}"),
        }
    }

    #[test]
    fn both_estimates_are_found_exactly_and_their_geometric_mean_is_taken() {
        let of = |x: f64| CandidateScore { loss: 0.3 + 0.1 * (x - 0.5).powi(2), excess: 0.2 * (0.3 - x) };
        for search in [Search::temperature(Modes::ONE), Search::prior_variance(1.5, Modes::ONE)] {
            let choice = chosen(search, of);
            assert!((choice.by_likelihood.ln() - 0.5).abs() < 1e-6, "{choice:?}");
            assert!((choice.by_confidence.unwrap().ln() - 0.3).abs() < 1e-6, "{choice:?}");
            assert!((choice.chosen.ln() - 0.4).abs() < 1e-6, "{choice:?}");
            assert_eq!((choice.interval, choice.mixture_temperature), (None, None));
        }
    }

    #[test]
    fn a_grid_whose_edge_is_best_is_moved() {
        for best in [-5.0, 4.0, 6.0] {
            let of = |x: f64| CandidateScore { loss: (x - best).powi(2), ..CandidateScore::default() };
            let mut search = Search::temperature(Modes::ONE);
            let choice = loop {
                match conclude(search, of) {
                    SearchOutcome::Again(next) => search = next,
                    SearchOutcome::Chosen(choice) => break choice,
                }
            };
            assert!((choice.chosen.ln() - best).abs() < 1e-6, "{choice:?}");
        }
        let always = |x: f64| CandidateScore { loss: -x, ..CandidateScore::default() };
        let mut search = Search::prior_variance(1.0, Modes::ONE);
        for _ in 1..MAX_GRIDS {
            let SearchOutcome::Again(next) = conclude(search, always) else { panic!("not at the edge") };
            search = next;
        }
        assert!(matches!(conclude(search, always), SearchOutcome::Chosen(_)), "it ends");
    }

    #[test]
    fn no_prior_variance_at_all_can_be_best() {
        let of = |x: f64| CandidateScore { loss: x, excess: -1.0 };
        let choice = chosen(Search::prior_variance(1.0, Modes::ONE), of);
        assert_eq!((choice.candidates[0], choice.by_confidence), (0.0, None));
        assert!(choice.chosen > 0.0 && choice.chosen < 1e-3, "below every other: {}", choice.chosen);
    }

    /// A few samples that are all right: the likelihood alone would take no temperature at all.
    #[test]
    fn a_handful_of_samples_decides_for_no_extreme() {
        let search = Search::temperature(Modes::ONE);
        let loss = |x: f64| (-(3.0 / x.exp())).exp().ln_1p();
        let scores = positions(search.candidates().values());
        let scores =
            scores.into_iter().map(|x| CandidateScore { loss: 3.0 * loss(x), excess: -0.1 }).collect();
        let Some(SearchOutcome::Chosen(choice)) = search.conclude(&[&report(0, 3, scores)]) else {
            panic!("no choice")
        };
        assert!((0.5..1.0).contains(&choice.chosen) && choice.by_confidence.is_none(), "{choice:?}");
    }

    #[test]
    fn reports_are_pooled_by_samples_and_clients_that_differ_widen_the_interval() {
        let search = Search::temperature(Modes::ONE);
        let at = |best: f64| {
            scored(&search, |x| CandidateScore { loss: (x - best).powi(2), ..CandidateScore::default() })
        };
        let interval = |spread: f64| {
            let reports = [at(0.1 - spread), at(0.1), at(0.1 + spread)];
            let reports: Vec<&CalibrationScores> = reports.iter().collect();
            match search.clone().conclude(&reports).unwrap() {
                SearchOutcome::Chosen(choice) => {
                    assert!((choice.chosen.ln() - 0.1).abs() < 1e-6, "{choice:?}");
                    choice.interval.unwrap()
                }
                SearchOutcome::Again(_) => panic!("not at the edge"),
            }
        };
        let (narrow, wide) = (interval(0.01), interval(0.2));
        assert!(narrow[1] / narrow[0] < 1.05 && wide[1] / wide[0] > 1.3, "{narrow:?} {wide:?}");
        // The standard error of three equal weights is the deviation over the root of 3.
        let error = 0.2 / 3.0_f64.sqrt();
        assert!((wide[1].ln() - 0.1 - INTERVAL * error).abs() < 1e-6, "{wide:?}");
        assert!(search.conclude(&[]).is_none(), "nobody had a sample");
    }

    #[test]
    fn averages_over_modes_that_were_scored_alone_are_sharpened() {
        let easy = |x: f64| CandidateScore { loss: (x - 0.2).powi(2), ..CandidateScore::default() };
        let sharpened = |count, common_rounds, added: f64| {
            let of = |x: f64| CandidateScore { loss: added + easy(x).loss, ..CandidateScore::default() };
            let search = Search::temperature(Modes { count, common_rounds });
            chosen(search, of).mixture_temperature.map(|temperature| -temperature.ln())
        };
        assert_eq!(
            (sharpened(1, 0, 0.0), sharpened(4, 10, 0.0)),
            (None, None),
            "what is scored is the average"
        );
        let is = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-3;
        assert!(is(sharpened(2, 0, 0.0), 0.5 * AVERAGING_TEMPERED));
        assert!(is(sharpened(4, 0, 0.0), 0.75 * AVERAGING_TEMPERED));
        assert!(is(sharpened(4, 0, 1.0), 0.75 * (AVERAGING_TEMPERED + AVERAGING)), "harder data");
        assert!(is(sharpened(4, 0, 9.0), 0.75 * (AVERAGING_TEMPERED + HARDEST * AVERAGING)), "hopeless data");
    }

    #[test]
    fn scores_that_cannot_be_used_are_named() {
        let score = |loss| CandidateScore { loss, ..CandidateScore::default() };
        let good = |client| report(client, 5, vec![score(1.0), score(2.0)]);
        let scores = [
            good(1),
            good(1),
            good(9),
            CalibrationScores { round: 7, ..good(2) },
            CalibrationScores { candidates: vec![score(1.0)], ..good(3) },
            CalibrationScores { candidates: vec![score(1.0), score(f64::NAN)], ..good(4) },
            CalibrationScores { candidates: vec![score(1e300), score(-1e300)], ..good(5) },
            CalibrationScores { samples: usize::MAX, ..good(6) },
            CalibrationScores { samples: 0, ..good(7) },
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
        assert_eq!([1, 2, 10, 150].map(calibration_round), [1, 1, 8, 120]);
    }
}
