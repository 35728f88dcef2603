//! The temperature of the average over modes that set different samples aside.
//!
//! The average of modes that are calibrated one by one is too unsure: where none of them is sure they disagree, and the
//! average has the doubts of all. By how much differs between data, and is measured: every two neighbouring modes have a quarter
//! of what they set aside in common, so that on those samples both the average of the two and each by itself can be scored.
//! The logarithm of the best temperature of the average, less that of its modes, is the effect of averaging two; of `K` modes
//! it is `(1 - 1/K) / (1 - 1/2)` times as much, as the spread of a mean grows with the number of independent parts.
//!
//! Training goes on after the choice, on more data, and what is best for a mode changes: surer where little is left to be
//! learned, less sure where more is learned than remembered. So what neighbours have in common stays aside until the end, when
//! the clients of the same round are asked once more. How the best temperature of modes by themselves has changed on these samples is
//! added, and the effect of averages is that of the end.
//!
//! Temperatures that are compared are found on the same samples, so that most of their noise is common to both: a difference
//! is known to .02 from 750 samples, where a temperature by itself is known to .1. By likelihood alone: where confidence
//! equals accuracy differs more by chance.

use super::calibration::{CalibrationChoice, INTERVAL, ScoresAlone};
use super::estimate::{Pooled, Prior, deviation_of_jackknife, minimum, positions};
use crate::calibration::Candidates;
use crate::wire::CalibrationScores;

/// Fewest samples by which the effect is measured: with as many that of four modes is known to about .05.
const MIN_SAMPLES: usize = 250;

/// What no temperature of an average is beyond, in either direction.
const MOST: f64 = 4.0;

/// A weak prior on the logarithm of either temperature: a handful of samples that are all right, or all wrong, say nothing
/// of the difference.
pub(super) const PRIOR: Prior = Prior { centre: 0.0, below: 0.5, above: 0.5 };

/// Chooses by what clients found of averages over two modes and of the modes by themselves, at the end beside the temperature
/// that was best for modes alone `before`; none with fewer than [`MIN_SAMPLES`].
pub(super) fn conclude(
    candidates: &Candidates,
    modes: usize,
    before: Option<f64>,
    reports: &[&CalibrationScores],
) -> Option<CalibrationChoice> {
    let values = candidates.values();
    let positions = positions(values);
    if pooled(values.len(), reports)?.0.samples < MIN_SAMPLES {
        return None;
    }
    let best = |reports: &[&CalibrationScores]| {
        let (averages, alone) = pooled(values.len(), reports)?;
        let best = |pooled: Pooled| {
            let pooled = pooled.with_prior(&positions, PRIOR);
            Some(minimum(&positions, &pooled.means(|score| score.loss), pooled.best()?))
        };
        Some((best(averages)?, best(alone)?))
    };
    let effect = |reports: &[&CalibrationScores]| {
        let (average, alone) = best(reports)?;
        let changed = before.map_or(0.0, |before| alone - before.ln());
        let effect = changed + (average - alone) * 2.0 * (1.0 - 1.0 / modes as f64);
        Some(effect.clamp(-MOST.ln(), MOST.ln()))
    };
    let (chosen, (_, best_alone)) = (effect(reports)?, best(reports)?);
    // At the end it would hold the choice's part of the noise fixed, which both have in common.
    let error = if before.is_none() { deviation_of_jackknife(reports, effect) } else { None };
    let interval = error.map(|error| [chosen - INTERVAL * error, chosen + INTERVAL * error].map(f64::exp));
    let (averages, alone) = pooled(values.len(), reports)?;
    Some(CalibrationChoice {
        what: candidates.name().to_owned(),
        samples: averages.samples,
        candidates: values.to_vec(),
        nll: averages.means(|score| score.loss),
        excess_confidence: averages.means(|score| score.excess),
        by_likelihood: chosen.exp(),
        by_confidence: None,
        chosen: chosen.exp(),
        interval,
        mixture_temperature: None,
        alone: Some(ScoresAlone {
            temperature: best_alone.exp(),
            nll: alone.means(|score| score.loss),
            excess_confidence: alone.means(|score| score.excess),
        }),
    })
}

/// The scores of averages, and of modes by themselves, which follow them in every report.
fn pooled(candidates: usize, reports: &[&CalibrationScores]) -> Option<(Pooled, Pooled)> {
    let part = |from: usize| Pooled::of_part(from..from + candidates, reports.iter().copied());
    Some((part(0)?, part(candidates)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::CandidateScore;

    fn candidates() -> Candidates {
        Candidates::AverageTemperatures((-10..=10).map(|step| (0.1 * f64::from(step)).exp()).collect())
    }

    /// What a client reports that finds these logarithms of temperatures best, for averages and alone.
    fn report(client: usize, samples: usize, average: f64, alone: f64) -> CalibrationScores {
        let of = |best: f64| {
            let score = move |value: &f64| CandidateScore {
                loss: samples as f64 * (value.ln() - best).powi(2),
                excess: -1.0,
            };
            candidates().values().iter().map(score).collect::<Vec<_>>()
        };
        CalibrationScores { round: 1, client, samples, candidates: [of(average), of(alone)].concat() }
    }

    fn chosen(modes: usize, reports: &[CalibrationScores]) -> CalibrationChoice {
        conclude(&candidates(), modes, None, &reports.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_effect_of_two_modes_grows_to_that_of_all() {
        let reports = [report(0, 100, -0.02, 0.04), report(1, 300, -0.02, 0.04)];
        for (modes, expected) in [(2, -0.06), (4, -0.09), (8, -0.105)] {
            let choice = chosen(modes, &reports);
            assert!((choice.chosen.ln() - expected).abs() < 2e-3, "{modes} modes: {choice:?}");
            assert_eq!((choice.samples, choice.by_confidence), (400, None));
            let [low, high] = choice.interval.unwrap();
            assert!((high / low - 1.0).abs() < 1e-2, "both found the same: {low} {high}");
            assert_eq!(choice.alone.unwrap().nll.len(), candidates().values().len());
        }
    }

    #[test]
    fn what_averages_and_modes_have_in_common_makes_no_difference() {
        let at = |common: f64| [report(0, 150, common - 0.1, common), report(1, 150, common - 0.1, common)];
        for common in [-0.4, 0.0, 0.3] {
            let choice = chosen(2, &at(common));
            assert!((choice.chosen.ln() + 0.1).abs() < 5e-3, "{choice:?}");
        }
    }

    #[test]
    fn what_training_on_has_changed_is_added() {
        let reports = [report(0, 200, 0.1, 0.2), report(1, 200, 0.1, 0.2)];
        let reports: Vec<&CalibrationScores> = reports.iter().collect();
        let choice = conclude(&candidates(), 4, Some(0.05_f64.exp()), &reports).unwrap();
        assert!((choice.chosen.ln() - (0.2 - 0.05 - 0.1 * 1.5)).abs() < 5e-3, "{choice:?}");
        assert!(choice.interval.is_none());
        assert!((choice.alone.unwrap().temperature.ln() - 0.2).abs() < 5e-3);
    }

    #[test]
    fn clients_count_by_their_samples_and_differences_between_them_widen_the_interval() {
        let choice =
            chosen(2, &[report(0, 100, -0.1, 0.0), report(1, 300, -0.2, 0.0), report(2, 100, -0.1, 0.0)]);
        assert!((choice.chosen.ln() + 0.16).abs() < 5e-3, "{choice:?}");
        let [low, high] = choice.interval.unwrap();
        assert!(low.ln() < -0.15 && high.ln() > -0.07, "{low} {high}");
        assert!(conclude(&candidates(), 2, None, &[&report(0, MIN_SAMPLES - 1, -0.1, 0.0)]).is_none());
        let wild = chosen(8, &[report(0, 1_000_000, -1.0, 1.0)]);
        assert!((wild.chosen - 1.0 / MOST).abs() < 1e-9, "{wild:?}");
        let one = chosen(2, &[report(0, 400, -0.1, 0.0)]);
        assert!(one.interval.is_none() && (one.chosen.ln() + 0.1).abs() < 5e-3);
        assert!(conclude(&candidates(), 2, None, &[]).is_none(), "nobody had a sample");
    }
}
