//! How participants' versions of the shared part become one.

use std::borrow::Cow;

use super::robust::{self, RobustEstimator};
use crate::config::{VarianceAverage, Weighting};
use crate::parameters::{Gaussian, SharedParameters};
use crate::wire::{Upload, Variances};

/// How participants' versions become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregation {
    /// How much a participant counts.
    pub weighting: Weighting,
    /// What is averaged of variances.
    pub variance_average: VarianceAverage,
    /// The variance of a parameter that nobody selected.
    pub unselected: f64,
    /// Participants send variances in every so many rounds; in between the server keeps those it has.
    pub posterior_interval: u64,
    /// The mean, or something that a few wrong updates cannot move far.
    pub estimator: RobustEstimator,
    /// Largest norm of an update's difference from the server's values; 0: none.
    pub clip: f64,
}

impl Aggregation {
    /// The plain mean, all participants alike.
    #[must_use]
    pub const fn mean(variance_average: VarianceAverage, unselected: f64, posterior_interval: u64) -> Self {
        let (weighting, estimator) = (Weighting::Uniform, RobustEstimator::Mean);
        Self { weighting, variance_average, unselected, posterior_interval, estimator, clip: 0.0 }
    }

    /// Whether participants send variances in this round, counted from 1, where the server holds a Gaussian.
    #[must_use]
    pub const fn variances_are_due(&self, round: u64) -> bool {
        round.is_multiple_of(self.posterior_interval)
    }

    /// The uploads of a round as one: the weighted mean of values and, for a Gaussian, of spreads; or what stands in for
    /// the mean. Variances stay as they are but where they are due. Sums run in f64 in the order of the uploads. Cost: one pass over each upload (two with a clip), and a
    /// sort of each parameter's values where it is no mean.
    #[must_use]
    pub fn merge<'a>(
        &self,
        variances_are_due: bool,
        uploads: &[&'a Upload],
        before: &SharedParameters,
    ) -> SharedParameters {
        let weight = |upload: &Upload| match self.weighting {
            Weighting::Uniform => 1.0,
            Weighting::Samples => upload.samples as f64,
        };
        let total: f64 = uploads.iter().map(|upload| weight(upload)).sum();
        let shares: Vec<f64> = uploads.iter().map(|upload| weight(upload) / total).collect();
        let size = before.values().len();
        let clipped = |upload: &&'a Upload| robust::clipped(&upload.shared, before.values(), self.clip);
        let rows: Vec<Cow<'a, [f32]>> = uploads.iter().map(clipped).collect();
        let values = match self.estimator {
            RobustEstimator::Mean => average(&rows, &shares, size),
            estimator => estimator.of_columns(&rows, size).into_iter().map(|value| value as f32).collect(),
        };
        let SharedParameters::Gaussian(gaussian) = before else { return SharedParameters::Point(values) };
        let variance = match self.estimator {
            _ if !variances_are_due => gaussian.variance.clone(),
            RobustEstimator::Mean => self.average_variances(uploads, &shares, size),
            estimator => self.robust_variances(estimator, uploads, size),
        };
        SharedParameters::Gaussian(Gaussian { mean: values, variance })
    }

    /// The median or trimmed mean of each parameter's spread over those that sent one. Zeros for the others, as means have
    /// them, would be the majority, and the result.
    fn robust_variances(&self, estimator: RobustEstimator, uploads: &[&Upload], size: usize) -> Vec<f32> {
        let row = |upload: &&Upload| {
            let mut row = vec![f32::NAN; size];
            for (index, variance) in upload.variances.iter().flat_map(Variances::pairs) {
                row[index] = match self.variance_average {
                    VarianceAverage::Deviation => variance.sqrt(),
                    VarianceAverage::Variance | VarianceAverage::Selected => variance,
                };
            }
            row
        };
        let rows: Vec<Vec<f32>> = uploads.iter().map(row).collect();
        let variance = |spread: f64| {
            let variance =
                if self.variance_average == VarianceAverage::Deviation { spread * spread } else { spread };
            if spread.is_nan() { self.unselected as f32 } else { (variance as f32).max(f32::MIN_POSITIVE) }
        };
        estimator.of_columns(&rows, size).into_iter().map(variance).collect()
    }

    fn average_variances(&self, uploads: &[&Upload], shares: &[f64], size: usize) -> Vec<f32> {
        let mut sums = vec![0.0_f64; size];
        let mut selected_weight = vec![0.0_f64; size];
        for (upload, share) in uploads.iter().zip(shares) {
            let Some(variances) = &upload.variances else { continue };
            for (index, variance) in variances.pairs() {
                selected_weight[index] += share;
                sums[index] += share
                    * match self.variance_average {
                        VarianceAverage::Deviation => f64::from(variance).sqrt(),
                        VarianceAverage::Variance | VarianceAverage::Selected => f64::from(variance),
                    };
            }
        }
        let variance = |(sum, selected_weight): (f64, f64)| {
            let averaged = match self.variance_average {
                VarianceAverage::Deviation => sum * sum,
                VarianceAverage::Variance => sum,
                VarianceAverage::Selected => sum / selected_weight,
            };
            // A variance too small for f32 is still one: a variance of 0 would be a prior that fixes the parameter.
            if selected_weight == 0.0 {
                self.unselected as f32
            } else {
                (averaged as f32).max(f32::MIN_POSITIVE)
            }
        };
        sums.into_iter().zip(selected_weight).map(variance).collect()
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
        let variances = Some(Variances { selected: Some(selected), values });
        Upload { round: 1, client, samples, loss: None, shared, variances }
    }

    fn merge(spread: VarianceAverage, weighting: Weighting, uploads: &[Upload]) -> Vec<f32> {
        let aggregation = Aggregation { weighting, ..Aggregation::mean(spread, 0.25, 1) };
        let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; uploads[0].shared.len()], 1.0));
        aggregation.merge(true, &uploads.iter().collect::<Vec<_>>(), &before).variance().unwrap().to_vec()
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
        close(merge(VarianceAverage::Deviation, Weighting::Uniform, &uploads), [0.16, 0.04, 0.25]);
        close(merge(VarianceAverage::Variance, Weighting::Uniform, &uploads), [0.2, 0.08, 0.25]);
        close(merge(VarianceAverage::Variance, Weighting::Samples, &uploads), [0.28, 0.04, 0.25]);
        close(merge(VarianceAverage::Selected, Weighting::Uniform, &uploads), [0.2, 0.16, 0.25]);
        close(merge(VarianceAverage::Selected, Weighting::Samples, &uploads), [0.28, 0.16, 0.25]);
    }

    /// Of all parameters, as mean-field methods send them: the mean of standard deviations.
    #[test]
    fn variances_of_all_parameters_need_no_indices() {
        let dense = |client, values: Vec<f32>| Upload {
            variances: Some(Variances { selected: None, values }),
            ..upload(client, 1, vec![0.0; 2], &[])
        };
        let uploads = [dense(0, vec![0.04, 1.0]), dense(1, vec![0.16, 4.0])];
        let found = merge(VarianceAverage::Deviation, Weighting::Uniform, &uploads);
        assert!((found[0] - 0.09).abs() < 1e-6 && (found[1] - 2.25).abs() < 1e-6, "{found:?}");
    }

    /// A median counts only participants that sent the parameter, and one outlier does not move it.
    #[test]
    fn robust_spreads_are_of_those_that_sent_one() {
        let uploads = [
            upload(0, 1, vec![1.0; 3], &[(0, 0.04), (1, 0.16)]),
            upload(1, 1, vec![2.0; 3], &[(0, 0.09)]),
            upload(2, 1, vec![900.0; 3], &[(0, 1e6)]),
        ];
        for spread in [VarianceAverage::Deviation, VarianceAverage::Variance, VarianceAverage::Selected] {
            for estimator in [RobustEstimator::Median, RobustEstimator::TrimmedMean(0.1)] {
                let aggregation = Aggregation { estimator, ..Aggregation::mean(spread, 0.25, 1) };
                let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 3], 1.0));
                let found = aggregation.merge(true, &uploads.iter().collect::<Vec<_>>(), &before);
                assert_eq!(found.values(), [2.0; 3], "{estimator:?}");
                for (found, expected) in found.variance().unwrap().iter().zip([0.09, 0.16, 0.25]) {
                    assert!(
                        (found - expected).abs() < 1e-6,
                        "{estimator:?}, {spread:?}: {found}, not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_clip_shortens_what_is_far_and_no_variance() {
        let uploads = [upload(0, 1, vec![3.0, 4.0], &[(0, 0.5)]), upload(1, 1, vec![0.3, 0.1], &[(0, 0.5)])];
        let aggregation = Aggregation { clip: 1.0, ..Aggregation::mean(VarianceAverage::Selected, 0.25, 1) };
        let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 2], 1.0));
        let found = aggregation.merge(true, &uploads.iter().collect::<Vec<_>>(), &before);
        // (0.6, 0.8) and (0.3, 0.1).
        assert!(found.values().iter().all(|value| (value - 0.45).abs() < 1e-6), "{:?}", found.values());
        assert_eq!(found.variance(), Some(&[0.5, 0.25][..]));
    }

    proptest! {
        /// A mean of deviations squared is at most the mean of variances (Jensen), and equal uploads average to
        /// themselves.
        #[test]
        fn deviations_average_below_variances(variances in proptest::collection::vec(1e-6_f32..10.0, 1..6)) {
            let uploads: Vec<Upload> = variances.iter().enumerate()
                .map(|(client, &v)| upload(client, 1, vec![0.0], &[(0, v)])).collect();
            let deviation = merge(VarianceAverage::Deviation, Weighting::Uniform, &uploads)[0];
            let variance = merge(VarianceAverage::Variance, Weighting::Uniform, &uploads)[0];
            prop_assert!(deviation <= variance * 1.000_01);
            let same: Vec<Upload> = (0..3).map(|client| upload(client, 1, vec![0.0], &[(0, variances[0])])).collect();
            let alone = merge(VarianceAverage::Deviation, Weighting::Uniform, &same)[0];
            prop_assert!((alone - variances[0]).abs() <= 1e-6 * variances[0]);
        }
    }
}
