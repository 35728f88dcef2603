//! The shared part, and how participants' versions of it become one.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Weighting;
use crate::message::Upload;
use crate::privacy::Mechanism;
use crate::robust::{self, Centre};

/// What the server holds of the network: values, or a Gaussian around them.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Point values, or the Gaussian's mean.
    pub values: Vec<f32>,
    /// The Gaussian's variances; none for point values.
    pub variance: Option<Vec<f32>>,
}

impl Shared {
    /// Point values.
    #[must_use]
    pub const fn point(values: Vec<f32>) -> Self {
        Self { values, variance: None }
    }

    /// A Gaussian of one variance around the values.
    #[must_use]
    pub fn gaussian(values: Vec<f32>, variance: f64) -> Self {
        let variance = Some(vec![variance as f32; values.len()]);
        Self { values, variance }
    }
}

/// Variances that a participant sends: of all shared parameters, or of the few it keeps a distribution of; every other
/// one is then a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variances {
    /// Ascending indices within the shared part; none for all of it.
    pub selected: Option<Vec<u32>>,
    /// The variances, above 0.
    pub values: Vec<f32>,
}

impl Variances {
    /// Which parameters these are variances of, and what they are.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, f32)> {
        let selected = self.selected.as_deref();
        self.values.iter().enumerate().map(move |(place, &variance)| match selected {
            Some(selected) => (selected[place] as usize, variance),
            None => (place, variance),
        })
    }

    /// Why these are no variances of a shared part of `size` parameters.
    #[must_use]
    pub fn objection(&self, size: usize) -> Option<String> {
        let values = self.values.len();
        let known = self.selected.as_ref().map_or(size, Vec::len);
        if known != values {
            return Some(format!("it sent {values} variances for {known} parameters"));
        }
        if let Some(selected) = &self.selected {
            if !selected.is_sorted_by(|a, b| a < b) {
                return Some("the parameters it sent variances of are not in ascending order".to_owned());
            }
            if let Some(&last) = selected.last().filter(|&&last| last as usize >= size) {
                return Some(format!("it sent a variance of parameter {last} of {size}"));
            }
        }
        let bad = self.pairs().find(|(_, value)| !(value.is_finite() && *value > 0.0));
        bad.map(|(index, value)| format!("the variance it sent of parameter {index} is {value}"))
    }
}

/// What is averaged where participants send variances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpreadAverage {
    /// Standard deviations of all participants, 0 where one did not select the parameter: the paper's algorithm as
    /// it is written.
    Deviation,
    /// Variances of all participants, 0 where one did not select the parameter.
    Variance,
    /// Variances of those participants that selected the parameter: the others have not said that they are certain
    /// of it.
    Selected,
}

/// How participants' versions become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregation {
    /// How much a participant counts.
    pub weighting: Weighting,
    /// What is averaged of variances.
    pub spread: SpreadAverage,
    /// The variance of a parameter that nobody selected.
    pub unselected: f64,
    /// Participants send variances in every so many rounds; in between the server keeps those it has.
    pub every: u64,
    /// The mean, or something that a few wrong updates cannot move far.
    pub centre: Centre,
    /// Largest norm of an update's difference from the server's values; 0: none.
    pub clip: f64,
    /// Noise that hides any one client, if any.
    pub privacy: Option<Mechanism>,
}

impl Aggregation {
    /// The plain mean, all participants alike.
    #[must_use]
    pub const fn mean(spread: SpreadAverage, unselected: f64, every: u64) -> Self {
        let (weighting, centre) = (Weighting::Uniform, Centre::Mean);
        Self { weighting, spread, unselected, every, centre, clip: 0.0, privacy: None }
    }

    /// Whether participants send variances in this round, counted from 1, where the server holds a Gaussian.
    #[must_use]
    pub const fn spread_is_due(&self, round: u64) -> bool {
        round.is_multiple_of(self.every)
    }

    /// The uploads of a round as one: the weighted mean of values and, for a Gaussian, of spreads; or what stands in for
    /// the mean. Sums run in f64 in the order of the uploads. Cost: one pass over each upload (two with a clip), and a
    /// sort of each parameter's values where it is no mean.
    #[must_use]
    pub fn merge<'a>(&self, round: u64, uploads: &[&'a Upload], before: &Shared) -> Shared {
        if let Some(privacy) = &self.privacy {
            return privacy.merge(round, uploads, before, self.spread_is_due(round));
        }
        let weight = |upload: &Upload| match self.weighting {
            Weighting::Uniform => 1.0,
            Weighting::Samples => upload.samples as f64,
        };
        let total: f64 = uploads.iter().map(|upload| weight(upload)).sum();
        let shares: Vec<f64> = uploads.iter().map(|upload| weight(upload) / total).collect();
        let size = before.values.len();
        let clipped = |upload: &&'a Upload| robust::clipped(&upload.shared, &before.values, self.clip);
        let rows: Vec<Cow<'a, [f32]>> = uploads.iter().map(clipped).collect();
        let values = match self.centre {
            Centre::Mean => average(&rows, &shares, size),
            centre => centre.of_columns(&rows, size).into_iter().map(|value| value as f32).collect(),
        };
        let variance = before.variance.as_ref().map(|variance| match self.centre {
            _ if !self.spread_is_due(round) => variance.clone(),
            Centre::Mean => self.average_spread(uploads, &shares, size),
            centre => self.central_spread(centre, uploads, size),
        });
        Shared { values, variance }
    }

    /// The median or trimmed mean of each parameter's spread over those that sent one. Zeros for the others, as means have
    /// them, would be the majority, and the result.
    fn central_spread(&self, centre: Centre, uploads: &[&Upload], size: usize) -> Vec<f32> {
        let row = |upload: &&Upload| {
            let mut row = vec![f32::NAN; size];
            for (index, variance) in upload.spread.iter().flat_map(Variances::pairs) {
                row[index] = match self.spread {
                    SpreadAverage::Deviation => variance.sqrt(),
                    SpreadAverage::Variance | SpreadAverage::Selected => variance,
                };
            }
            row
        };
        let rows: Vec<Vec<f32>> = uploads.iter().map(row).collect();
        let variance = |spread: f64| {
            let variance = if self.spread == SpreadAverage::Deviation { spread * spread } else { spread };
            if spread.is_nan() { self.unselected as f32 } else { (variance as f32).max(f32::MIN_POSITIVE) }
        };
        centre.of_columns(&rows, size).into_iter().map(variance).collect()
    }

    fn average_spread(&self, uploads: &[&Upload], shares: &[f64], size: usize) -> Vec<f32> {
        let mut sums = vec![0.0_f64; size];
        let mut heard = vec![0.0_f64; size];
        for (upload, share) in uploads.iter().zip(shares) {
            let Some(spread) = &upload.spread else { continue };
            for (index, variance) in spread.pairs() {
                heard[index] += share;
                sums[index] += share
                    * match self.spread {
                        SpreadAverage::Deviation => f64::from(variance).sqrt(),
                        SpreadAverage::Variance | SpreadAverage::Selected => f64::from(variance),
                    };
            }
        }
        let variance = |(sum, heard): (f64, f64)| {
            let averaged = match self.spread {
                SpreadAverage::Deviation => sum * sum,
                SpreadAverage::Variance => sum,
                SpreadAverage::Selected => sum / heard,
            };
            // A spread too small for f32 is still a spread: a variance of 0 would be a prior nobody can leave.
            if heard == 0.0 { self.unselected as f32 } else { (averaged as f32).max(f32::MIN_POSITIVE) }
        };
        sums.into_iter().zip(heard).map(variance).collect()
    }
}

/// Values averaged at a time: their sums stay in the innermost cache.
const BLOCK: usize = 1024;

/// The weighted mean of the rows.
fn average(rows: &[Cow<'_, [f32]>], shares: &[f64], size: usize) -> Vec<f32> {
    let mut mean = vec![0.0; size];
    let mut sums = [0.0_f64; BLOCK];
    for (block, mean) in mean.chunks_mut(BLOCK).enumerate() {
        let sums = &mut sums[..mean.len()];
        sums.fill(0.0);
        for (row, share) in rows.iter().zip(shares) {
            for (sum, &value) in sums.iter_mut().zip(&row[block * BLOCK..]) {
                *sum += share * f64::from(value);
            }
        }
        for (mean, &sum) in mean.iter_mut().zip(&*sums) {
            *mean = sum as f32;
        }
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn upload(client: usize, samples: usize, shared: Vec<f32>, spread: &[(u32, f32)]) -> Upload {
        let (selected, values) = spread.iter().copied().unzip();
        let spread = Some(Variances { selected: Some(selected), values });
        Upload { round: 1, client, samples, loss: None, shared, spread }
    }

    fn merge(spread: SpreadAverage, weighting: Weighting, uploads: &[Upload]) -> Vec<f32> {
        let aggregation = Aggregation { weighting, ..Aggregation::mean(spread, 0.25, 1) };
        let before = Shared::gaussian(vec![0.0; uploads[0].shared.len()], 1.0);
        aggregation.merge(1, &uploads.iter().collect::<Vec<_>>(), &before).variance.unwrap()
    }

    /// Parameter 0 was selected by both, 1 by one, 2 by nobody.
    #[test]
    fn spreads_are_averaged_with_zeros_and_alpha_returns_where_nobody_selected() {
        let uploads =
            [upload(0, 1, vec![0.0; 3], &[(0, 0.04), (1, 0.16)]), upload(1, 3, vec![0.0; 3], &[(0, 0.36)])];
        let close = |found: Vec<f32>, expected: [f32; 3]| {
            for (index, (a, b)) in found.iter().zip(expected).enumerate() {
                assert!((a - b).abs() < 1e-6, "parameter {index}: {a}, expected {b}");
            }
        };
        close(merge(SpreadAverage::Deviation, Weighting::Uniform, &uploads), [0.16, 0.04, 0.25]);
        close(merge(SpreadAverage::Variance, Weighting::Uniform, &uploads), [0.2, 0.08, 0.25]);
        close(merge(SpreadAverage::Variance, Weighting::Samples, &uploads), [0.28, 0.04, 0.25]);
        close(merge(SpreadAverage::Selected, Weighting::Uniform, &uploads), [0.2, 0.16, 0.25]);
        close(merge(SpreadAverage::Selected, Weighting::Samples, &uploads), [0.28, 0.16, 0.25]);
    }

    /// Of all parameters, as mean-field methods send them: the mean of standard deviations.
    #[test]
    fn variances_of_all_parameters_need_no_indices() {
        let dense = |client, values: Vec<f32>| Upload {
            spread: Some(Variances { selected: None, values }),
            ..upload(client, 1, vec![0.0; 2], &[])
        };
        let uploads = [dense(0, vec![0.04, 1.0]), dense(1, vec![0.16, 4.0])];
        let found = merge(SpreadAverage::Deviation, Weighting::Uniform, &uploads);
        assert!((found[0] - 0.09).abs() < 1e-6 && (found[1] - 2.25).abs() < 1e-6, "{found:?}");
    }

    /// A median hears only those that speak of a parameter, and one lie is not heard.
    #[test]
    fn robust_spreads_are_of_those_that_sent_one() {
        let uploads = [
            upload(0, 1, vec![1.0; 3], &[(0, 0.04), (1, 0.16)]),
            upload(1, 1, vec![2.0; 3], &[(0, 0.09)]),
            upload(2, 1, vec![900.0; 3], &[(0, 1e6)]),
        ];
        for spread in [SpreadAverage::Deviation, SpreadAverage::Variance, SpreadAverage::Selected] {
            for centre in [Centre::Median, Centre::TrimmedMean(0.1)] {
                let aggregation = Aggregation { centre, ..Aggregation::mean(spread, 0.25, 1) };
                let before = Shared::gaussian(vec![0.0; 3], 1.0);
                let found = aggregation.merge(1, &uploads.iter().collect::<Vec<_>>(), &before);
                assert_eq!(found.values, [2.0; 3], "{centre:?}");
                for (found, expected) in found.variance.unwrap().iter().zip([0.09, 0.16, 0.25]) {
                    assert!(
                        (found - expected).abs() < 1e-6,
                        "{centre:?}, {spread:?}: {found}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_clip_shortens_what_is_far_and_no_variance() {
        let uploads = [upload(0, 1, vec![3.0, 4.0], &[(0, 0.5)]), upload(1, 1, vec![0.3, 0.1], &[(0, 0.5)])];
        let aggregation = Aggregation { clip: 1.0, ..Aggregation::mean(SpreadAverage::Selected, 0.25, 1) };
        let before = Shared::gaussian(vec![0.0; 2], 1.0);
        let found = aggregation.merge(1, &uploads.iter().collect::<Vec<_>>(), &before);
        // (0.6, 0.8) and (0.3, 0.1).
        assert!(found.values.iter().all(|value| (value - 0.45).abs() < 1e-6), "{:?}", found.values);
        assert_eq!(found.variance, Some(vec![0.5, 0.25]));
    }

    #[test]
    fn bad_variances_are_named() {
        let sent = |selected: &[u32], values: &[f32]| {
            let spread = Variances { selected: Some(selected.to_vec()), values: values.to_vec() };
            spread.objection(4).unwrap_or_default()
        };
        let all = |values: &[f32]| {
            Variances { selected: None, values: values.to_vec() }.objection(3).unwrap_or_default()
        };
        assert_eq!(all(&[0.1, 0.2, 0.3]), "");
        assert!(all(&[0.1, 0.2]).contains("2 variances for 3"));
        assert!(all(&[0.1, 0.2, f32::INFINITY]).contains("parameter 2 is inf"));
        assert_eq!(sent(&[0, 3], &[0.1, 0.2]), "");
        assert!(sent(&[0, 3], &[0.1]).contains("1 variances for 2"));
        assert!(sent(&[3, 0], &[0.1, 0.1]).contains("ascending"));
        assert!(sent(&[2, 2], &[0.1, 0.1]).contains("ascending"), "twice the same");
        assert!(sent(&[0, 4], &[0.1, 0.1]).contains("parameter 4 of 4"));
        assert!(sent(&[0, 3], &[0.1, -0.1]).contains("parameter 3 is -0.1"));
        assert!(sent(&[1], &[f32::NAN]).contains("parameter 1 is NaN"));
        assert!(sent(&[1], &[0.0]).contains("parameter 1 is 0"));
    }

    proptest! {
        /// A mean of deviations squared is at most the mean of variances (Jensen), and equal uploads average to
        /// themselves.
        #[test]
        fn deviations_average_below_variances(variances in proptest::collection::vec(1e-6_f32..10.0, 1..6)) {
            let uploads: Vec<Upload> = variances.iter().enumerate()
                .map(|(client, &v)| upload(client, 1, vec![0.0], &[(0, v)])).collect();
            let deviation = merge(SpreadAverage::Deviation, Weighting::Uniform, &uploads)[0];
            let variance = merge(SpreadAverage::Variance, Weighting::Uniform, &uploads)[0];
            prop_assert!(deviation <= variance * 1.000_01);
            let same: Vec<Upload> = (0..3).map(|client| upload(client, 1, vec![0.0], &[(0, variances[0])])).collect();
            let alone = merge(SpreadAverage::Deviation, Weighting::Uniform, &same)[0];
            prop_assert!((alone - variances[0]).abs() <= 1e-6 * variances[0]);
        }
    }
}
