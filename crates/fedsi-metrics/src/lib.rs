//! Scores of predictions that carry their own uncertainty.
//!
//! Classification: [`Predictions`] is a checked view of class probabilities and labels; from it come the
//! [`ClassificationScores`] (accuracy, ECE beside its noise floor, MCE, Brier, NLL, AURC), the [`ReliabilityTable`] behind
//! a reliability diagram, the noise floor of MCE from its bins ([`mce_floor()`]), the [`ClassCounts`] of every class, the [`ConfusionMatrix`], 95%
//! [`Intervals`] by resampling clients, the entropy of every row and the [`RiskCoverage`] curve.
//! [`auroc`] measures how well a score separates two groups (right from wrong, seen from unseen classes), [`aurc`] how
//! well one ranks errors, and [`cross_fitted`] judges a threshold where it was not found. [`conformal_set`] and its
//! neighbours make sets and intervals of a wanted coverage. Regression: [`regression::GaussianPredictions`]. Many clients or
//! seeds: [`Summary`]; two methods over the same seeds: [`paired_t_test`]; shares of a count: [`wilson`]'s interval,
//! [`binomial_test`], [`binomial_below`] and others; several such tests: [`holm`].
//!
//! Everything is computed in f64 whatever the input's precision, in a fixed order. Only intervals draw random numbers, from
//! streams that are the same every time.
//! Samples are never weighted. A metric of no samples is `None`, never NaN.
//!
//! ```
//! use fedsi_metrics::{Bins, Predictions};
//!
//! let probabilities = [0.9, 0.1, 0.4, 0.6, 0.7, 0.3_f32];
//! let predictions = Predictions::new(&probabilities, &[0, 1, 1], 2)?;
//! let scores = predictions.scores(Bins::default()).unwrap();
//! assert_eq!(scores.samples, 3);
//! assert_eq!(scores.accuracy, 2.0 / 3.0);
//! # Ok::<(), fedsi_metrics::MetricsError>(())
//! ```

mod abstention;
mod aggregate;
mod bootstrap;
mod calibration;
mod classes;
mod conformal;
mod confusion;
mod ece_floor;
mod error;
mod mce_floor;
mod normal;
mod paired;
mod predictions;
mod proportion;
mod ranking;
pub mod regression;
mod scores;
mod selective;
mod strata;

pub use abstention::{AbstentionGoal, Judgement, cross_fitted};
pub use aggregate::{Summary, quantile, worst_tenth};
pub use bootstrap::{
    Estimate, FEWEST_CLIENTS, Intervals, MeanComparison, MeanOf, OwnedValues, Resampled, compare_means,
    mean_interval,
};
pub use calibration::{BinSums, Bins, ReliabilityBin, ReliabilityTable};
pub use classes::{ClassCounts, balanced_accuracy};
pub use conformal::{
    ConformalCoverage, class_nonconformity, conformal_intervals_found, conformal_quantile, conformal_set,
    conformal_sets_found, fewest_calibration_samples, value_nonconformity,
};
pub use confusion::{ConfusionMatrix, most_frequent};
pub use ece_floor::EceFloor;
pub use error::MetricsError;
pub use mce_floor::mce_floor;
pub use normal::HALF_WIDTH_95;
pub use paired::{MIN_PAIRS, PairedTest, holm, paired_t_test};
pub use predictions::{PredictionRow, Predictions, ROW_SUM_TOLERANCE};
pub use proportion::{
    RankTest, binomial_below, binomial_test, confidence_test, fisher_test, mid_ranks, normal_p, rank_tests,
    wilson,
};
pub use ranking::auroc;
pub use scores::{ClassificationScores, PROBABILITY_FLOOR};
pub use selective::{RiskCoverage, RiskPoint, aurc, entropy};
pub use strata::{Exceedances, SharePair, exceedance_test, stratified_fisher_test};
