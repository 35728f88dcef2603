//! From what clients report of candidates to one estimate and its error.

use std::ops::Range;

use crate::calibration::CandidateScore;
use crate::wire::CalibrationScores;

/// Samples from which on an accuracy is known well enough to match confidence to it.
const MIN_SAMPLES: usize = 100;

/// What the logarithm of a choice is expected to be: standard deviations on either side of a centre.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prior {
    pub(super) centre: f64,
    pub(super) below: f64,
    pub(super) above: f64,
}

/// Reports added up.
pub(super) struct Pooled {
    pub(super) samples: usize,
    scores: Vec<CandidateScore>,
}

impl Pooled {
    pub(super) fn of<'a>(count: usize, reports: impl Iterator<Item = &'a CalibrationScores>) -> Option<Self> {
        Self::of_part(0..count, reports)
    }

    /// The same of a part of what each report has; the reports were admitted as having as much.
    pub(super) fn of_part<'a>(
        part: Range<usize>,
        reports: impl Iterator<Item = &'a CalibrationScores>,
    ) -> Option<Self> {
        let mut pooled = Self { samples: 0, scores: vec![CandidateScore::default(); part.len()] };
        for report in reports {
            pooled.samples += report.samples;
            let found = report.candidates.iter().skip(part.start);
            for (sum, score) in pooled.scores.iter_mut().zip(found) {
                sum.loss += score.loss;
                sum.excess += score.excess;
            }
        }
        (pooled.samples > 0).then_some(pooled)
    }

    pub(super) fn means(&self, of: fn(&CandidateScore) -> f64) -> Vec<f64> {
        self.scores.iter().map(|score| of(score) / self.samples as f64).collect()
    }

    /// The candidate of the largest likelihood.
    pub(super) fn best(&self) -> Option<usize> {
        (0..self.scores.len()).min_by(|&a, &b| self.scores[a].loss.total_cmp(&self.scores[b].loss))
    }

    /// The same with a weak prior on the logarithm: a handful of samples that are all right would otherwise be best
    /// explained by no uncertainty at all. Hundreds of samples outweigh it.
    pub(super) fn with_prior(mut self, positions: &[f64], prior: Prior) -> Self {
        for (score, position) in self.scores.iter_mut().zip(positions) {
            let away = position - prior.centre;
            let deviation = if away < 0.0 { prior.below } else { prior.above };
            score.loss += 0.5 * (away / deviation).powi(2);
        }
        self
    }

    /// Where the likelihood is largest, and where confidence equals accuracy; the latter only with samples enough to know
    /// an accuracy.
    pub(super) fn estimates(&self, positions: &[f64]) -> Option<(f64, Option<f64>)> {
        let likelihood = minimum(positions, &self.means(|score| score.loss), self.best()?);
        if self.samples < MIN_SAMPLES {
            return Some((likelihood, None));
        }
        Some((likelihood, crossing(positions, &self.means(|score| score.excess), likelihood)))
    }
}

/// The logarithms of candidates; of 0 one step below the smallest of the others.
pub(super) fn positions(values: &[f64]) -> Vec<f64> {
    let mut positions: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if let [first, second, third, ..] = &mut positions[..]
        && *first == f64::NEG_INFINITY
    {
        *first = *second - (*third - *second);
    }
    positions
}

/// Both estimates as one: their mean; that of the likelihood alone where there is no other.
pub(super) fn combined(by_likelihood: f64, by_confidence: Option<f64>) -> f64 {
    by_confidence.map_or(by_likelihood, |by_confidence| f64::midpoint(by_likelihood, by_confidence))
}

/// The standard error of the choice over clients.
pub(super) fn jackknife(positions: &[f64], prior: Prior, reports: &[&CalibrationScores]) -> Option<f64> {
    deviation_of_jackknife(reports, |reports| {
        let pooled = Pooled::of(positions.len(), reports.iter().copied())?.with_prior(positions, prior);
        let (by_likelihood, by_confidence) = pooled.estimates(positions)?;
        Some(combined(by_likelihood, by_confidence))
    })
}

/// The standard error over clients of what an estimate makes of their reports: each is left out once. None of fewer than two.
pub(super) fn deviation_of_jackknife(
    reports: &[&CalibrationScores],
    estimate: impl Fn(&[&CalibrationScores]) -> Option<f64>,
) -> Option<f64> {
    let clients = reports.len();
    if clients < 2 {
        return None;
    }
    let without = |left_out: usize| {
        let (before, after) = (&reports[..left_out], &reports[left_out + 1..]);
        estimate(&[before, after].concat())
    };
    let estimates: Option<Vec<f64>> = (0..clients).map(without).collect();
    let estimates = estimates?;
    let mean = estimates.iter().sum::<f64>() / clients as f64;
    let squares: f64 = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum();
    Some((squares * (clients - 1) as f64 / clients as f64).sqrt())
}

/// Where a parabola through the best candidate and its neighbours is lowest. Losses on a few hundred samples are flat and
/// noisy: between candidates it does not jump.
pub(super) fn minimum(positions: &[f64], losses: &[f64], best: usize) -> f64 {
    if best == 0 || best + 1 >= positions.len() {
        return positions[best];
    }
    let (left, right) = (positions[best - 1] - positions[best], positions[best + 1] - positions[best]);
    let (below, above) = (losses[best - 1] - losses[best], losses[best + 1] - losses[best]);
    // loss = a x^2 + b x around the best candidate.
    let a = (above / right - below / left) / (right - left);
    let b = above / right - a * right;
    let shift = if a > 0.0 { (-b / (2.0 * a)).clamp(left, right) } else { 0.0 };
    positions[best] + shift
}

/// Where the excess confidence falls through 0, between two candidates; of several such places the nearest to `to`.
fn crossing(positions: &[f64], excess: &[f64], to: f64) -> Option<f64> {
    let falls = |(x, y): (&[f64], &[f64])| {
        (y[0] > 0.0 && y[1] <= 0.0).then(|| x[0] + (x[1] - x[0]) * y[0] / (y[0] - y[1]))
    };
    let places = positions.windows(2).zip(excess.windows(2)).filter_map(falls);
    places.min_by(|a, b| (a - to).abs().total_cmp(&(b - to).abs()))
}
