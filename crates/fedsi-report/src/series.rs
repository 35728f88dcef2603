//! What plots show of predictions: pooled, and of each client.

use fedsi_fl::client::Predictions;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Bins, ReliabilityBin, auroc};
use fedsi_run::report_data::ReportData;

use crate::{ReportError, RunFiles};

/// Coverages at which a risk is shown: 1/40, 2/40, .. 1.
pub(crate) const COVERAGES: usize = 40;
/// Bins of a histogram of entropies.
pub(crate) const ENTROPY_BINS: usize = 20;
/// Levels at which intervals are evaluated: 5%, 10%, .. 95%.
pub(crate) const LEVELS: usize = 19;
/// Bins of a histogram of standardised residuals, over `-RESIDUALS..RESIDUALS`.
pub(crate) const RESIDUAL_BINS: usize = 24;
/// Residuals beyond this many predicted deviations are counted in the outer bins.
pub(crate) const RESIDUALS: f64 = 4.0;
/// Groups of equal size by predicted deviation.
const DEVIATIONS: usize = 10;

/// The series of a run.
#[derive(Clone, Debug)]
pub(crate) enum RunSeries {
    /// Of predicted classes.
    Classes {
        /// How many classes.
        classes: usize,
        /// All clients together.
        pooled: ClassSeries,
        /// Clients with predictions, in their order.
        clients: Vec<(usize, ClassSeries)>,
    },
    /// Of predicted values.
    Values {
        /// All clients together.
        pooled: ValueSeries,
        /// Clients with predictions, in their order.
        clients: Vec<(usize, ValueSeries)>,
    },
}

/// What is shown of predicted classes.
#[derive(Clone, Debug)]
pub(crate) struct ClassSeries {
    /// The reliability diagram.
    pub(crate) bins: Vec<ReliabilityBin>,
    /// The share of wrong answers at each coverage.
    pub(crate) risk: Vec<f64>,
    /// Histograms of the entropy of right, wrong and unseen-class predictions.
    pub(crate) entropy: [Vec<usize>; 3],
    /// How well entropy separates samples of unseen classes from the others: AUROC.
    pub(crate) unseen_auroc: Option<f64>,
}

/// What is shown of predicted values; an entry is one target of one sample.
#[derive(Clone, Debug)]
pub(crate) struct ValueSeries {
    /// The share of entries within the interval of each level.
    pub(crate) coverage: Vec<f64>,
    /// A histogram of residuals over predicted deviations.
    pub(crate) residuals: Vec<usize>,
    /// By predicted deviation, smallest first: its mean, and the root of the mean squared error.
    pub(crate) deviations: Vec<(f64, f64)>,
}

impl RunSeries {
    /// Of a run, and of the clients that are `listed` (numbers, ascending); none where nothing was predicted.
    pub(crate) fn of(files: &RunFiles, listed: &[usize]) -> Result<Option<Self>, ReportError> {
        if files.predictions.is_empty() {
            return Ok(None);
        }
        let drawing = |error: fedsi_metrics::MetricsError| ReportError::Drawing(error.to_string());
        let owners = &files.owners;
        let spans = owners.chunk_by(|a, b| a == b).scan(0, |start, run| {
            let from = *start;
            *start += run.len();
            Some((run[0], from..*start))
        });
        let spans = spans.filter(|(client, _)| listed.binary_search(client).is_ok());
        match &files.predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let unseen = |client: usize| unseen_entropies(files.report_data.as_ref(), client);
                let all: Vec<f64> =
                    files.report_data.iter().flat_map(|found| &found.foreign).flat_map(doubles).collect();
                let clients = spans.map(|(client, rows)| {
                    let values = &probabilities[rows.start * classes..rows.end * classes];
                    let rows = fedsi_metrics::Predictions::new(values, &labels[rows], *classes)?;
                    Ok((client, ClassSeries::of(&rows, &unseen(client))?))
                });
                let rows =
                    fedsi_metrics::Predictions::new(probabilities, labels, *classes).map_err(drawing)?;
                Ok(Some(Self::Classes {
                    classes: *classes,
                    pooled: ClassSeries::of(&rows, &all).map_err(drawing)?,
                    clients: clients.collect::<Result<_, _>>().map_err(drawing)?,
                }))
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                let part = |values: &'_ [f64], rows: std::ops::Range<usize>| {
                    values[rows.start * outputs..rows.end * outputs].to_vec()
                };
                let clients = spans.map(|(client, rows)| {
                    let parts = [mean, variance, targets].map(|values| part(values, rows.clone()));
                    Ok((client, ValueSeries::of(&parts[0], &parts[1], &parts[2], *outputs)?))
                });
                Ok(Some(Self::Values {
                    pooled: ValueSeries::of(mean, variance, targets, *outputs).map_err(drawing)?,
                    clients: clients.collect::<Result<_, _>>().map_err(drawing)?,
                }))
            }
        }
    }
}

fn unseen_entropies(report_data: Option<&ReportData>, client: usize) -> Vec<f64> {
    let Some(all) = report_data.map(|found| &found.foreign) else { return Vec::new() };
    match all.binary_search_by_key(&client, |one| one.client) {
        Ok(place) => doubles(&all[place]).collect(),
        Err(_) => Vec::new(),
    }
}

fn doubles(found: &fedsi_run::report_data::ForeignEntropies) -> impl Iterator<Item = f64> + '_ {
    found.entropies.iter().map(|&entropy| f64::from(entropy))
}

impl ClassSeries {
    fn of(
        rows: &fedsi_metrics::Predictions<'_, f32>,
        unseen: &[f64],
    ) -> Result<Self, fedsi_metrics::MetricsError> {
        let most = (rows.classes() as f64).ln();
        let entropies = rows.entropies();
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for (row, &entropy) in rows.rows().zip(&entropies) {
            if row.is_correct() { right.push(entropy) } else { wrong.push(entropy) }
        }
        let risk = rows.risk_coverage().map(|curve| {
            (1..=COVERAGES).map(|step| curve.at_coverage(step as f64 / COVERAGES as f64).risk).collect()
        });
        Ok(Self {
            bins: rows.reliability(Bins::default()).bins().collect(),
            risk: risk.unwrap_or_default(),
            entropy: [&right, &wrong, unseen].map(|values| histogram(values, 0.0, most, ENTROPY_BINS)),
            unseen_auroc: auroc(&entropies, unseen)?,
        })
    }

    /// The groups of entropies that have any: right, wrong, unseen.
    pub(crate) fn entropy_groups(&self) -> Vec<usize> {
        (0..self.entropy.len()).filter(|&group| self.entropy[group].iter().any(|&count| count > 0)).collect()
    }
}

impl ValueSeries {
    pub(crate) fn of(
        mean: &[f64],
        variance: &[f64],
        targets: &[f64],
        outputs: usize,
    ) -> Result<Self, fedsi_metrics::MetricsError> {
        let rows = GaussianPredictions::new(mean, variance, targets, outputs)?;
        let level = |step: usize| step as f64 / (LEVELS + 1) as f64;
        let mut entries: Vec<(f64, f64)> =
            variance.iter().zip(mean.iter().zip(targets)).map(|(v, (m, t))| (v.sqrt(), t - m)).collect();
        entries.sort_by(|a, b| a.0.total_cmp(&b.0));
        let residuals: Vec<f64> = entries.iter().map(|(deviation, error)| error / deviation).collect();
        // A group of a few entries would show chance.
        let groups = (entries.len() / 20).clamp(1, DEVIATIONS);
        let deviations = entries.chunks(entries.len().div_ceil(groups).max(1)).map(|group| {
            let count = group.len() as f64;
            let squares: f64 = group.iter().map(|(_, error)| error * error).sum();
            (group.iter().map(|(deviation, _)| deviation).sum::<f64>() / count, (squares / count).sqrt())
        });
        Ok(Self {
            coverage: (1..=LEVELS).filter_map(|step| rows.coverage(level(step))).collect(),
            residuals: histogram(&residuals, -RESIDUALS, RESIDUALS, RESIDUAL_BINS),
            deviations: deviations.collect(),
        })
    }
}

/// Counts in equal bins; what lies outside is counted in the first or the last.
fn histogram(values: &[f64], lo: f64, hi: f64, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for value in values {
        // `as` saturates.
        let bin = ((value - lo) / (hi - lo) * bins as f64) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_keep_every_value() {
        assert_eq!(histogram(&[-9.0, 0.0, 0.5, 1.0, 9.0], 0.0, 1.0, 2), [2, 3]);
    }

    #[test]
    fn only_groups_with_entropies_have_a_panel() {
        let rows = [0.9_f32, 0.1, 0.9, 0.1];
        let of = |labels: &[u32], unseen: &[f64]| {
            let rows = fedsi_metrics::Predictions::new(&rows, labels, 2).unwrap();
            ClassSeries::of(&rows, unseen).unwrap().entropy_groups()
        };
        assert_eq!(of(&[0, 0], &[]), [0]);
        assert_eq!(of(&[0, 1], &[]), [0, 1]);
        assert_eq!(of(&[1, 1], &[0.5]), [1, 2]);
    }
}
