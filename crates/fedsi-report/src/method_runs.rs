//! What the runs of a comparison left behind, brought together method by method.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedsi_compare::comparison::{MethodResult, RunResult};
use fedsi_fl::client::Predictions;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Bins, ReliabilityBin, ReliabilityTable};

use crate::ReportError;
use crate::folder;
use crate::links::is_below;
use crate::series::LEVELS;

/// Rounds and a value of each.
pub(crate) type Points = Vec<(f64, f64)>;

/// Points of a curve: there are many curves.
const MAX_POINTS: usize = 300;

/// One method's runs together.
#[derive(Clone, Debug, Default)]
pub(crate) struct MethodRuns {
    /// Training loss by round, mean over seeds.
    pub(crate) loss: Points,
    /// Held-out accuracy or RMSE by round, mean over seeds.
    pub(crate) held_out: Points,
    /// How calibrated all runs' predictions are together.
    pub(crate) calibration: Option<Calibration>,
    /// Runs whose predictions were read.
    pub(crate) runs: usize,
    /// What could not be read, and why.
    pub(crate) unread: Vec<String>,
}

/// Calibration over all runs of a method.
#[derive(Clone, Debug)]
pub(crate) enum Calibration {
    /// Of predicted classes.
    Reliability { bins: Vec<ReliabilityBin>, ece: f64, floor: f64 },
    /// Of predicted values: levels and the share inside, and the share inside the 90% interval.
    Coverage { points: Points, inside: f64 },
}

/// Sums of what rounds hold, for means over seeds.
#[derive(Default)]
struct Means(BTreeMap<u64, (f64, f64)>);

impl Means {
    fn add(&mut self, round: u64, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let (sum, count) = self.0.entry(round).or_default();
            *sum += value;
            *count += 1.0;
        }
    }

    /// The means, thinned to what a screen can show; the last round is kept.
    fn points(&self) -> Points {
        let step = self.0.len().div_ceil(MAX_POINTS).max(1);
        let all: Points = self.0.iter().map(|(&round, (sum, count))| (round as f64, sum / count)).collect();
        let mut points: Points = all.into_iter().rev().step_by(step).collect();
        points.reverse();
        points
    }
}

/// Predictions of several runs, pooled.
enum Pool {
    Empty,
    Classes(ReliabilityTable),
    Values { outputs: usize, parts: [Vec<f64>; 3] },
}

impl MethodRuns {
    /// Reads a method's runs; what cannot be read is named and left out.
    pub(crate) fn of(folder: &Path, method: &MethodResult) -> Self {
        let mut method_runs = Self::default();
        let (mut loss, mut held_out, mut pool) = (Means::default(), Means::default(), Pool::Empty);
        for run in &method.runs {
            // Another tool's rounds, if it has any, are its own.
            let records = if method.external.is_some() { Ok(Vec::new()) } else { rounds(folder, run) };
            match records {
                Ok(records) => {
                    for record in &records {
                        loss.add(record.round, record.train_loss);
                        held_out
                            .add(record.round, record.validation.and_then(|one| one.accuracy.or(one.rmse)));
                    }
                }
                Err(error) => method_runs.unread.push(unread(folder, method, run, &error)),
            }
            match predictions(folder, run).and_then(|found| pool.add(found)) {
                Ok(()) => method_runs.runs += 1,
                Err(error) => method_runs.unread.push(unread(folder, method, run, &error)),
            }
        }
        (method_runs.loss, method_runs.held_out) = (loss.points(), held_out.points());
        method_runs.calibration = pool.calibration();
        method_runs
    }
}

/// Names files by where they are in the comparison's folder.
fn unread(folder: &Path, method: &MethodResult, run: &RunResult, error: &ReportError) -> String {
    let reason = error.to_string().replace(&format!("{}/", folder.display()), "");
    format!("{} seed {}: {reason}", method.title, run.seed)
}

fn rounds(folder: &Path, run: &RunResult) -> Result<Vec<RoundRecord>, ReportError> {
    folder::rounds(&run_folder(folder, run)?.join("metrics.jsonl"))
}

fn predictions(folder: &Path, run: &RunResult) -> Result<Predictions, ReportError> {
    let path = run_folder(folder, run)?.join("predictions.safetensors");
    Ok(folder::predictions(&path)?.0)
}

/// A run's folder, which is below the comparison's: `compare.json` may say anything.
fn run_folder(folder: &Path, run: &RunResult) -> Result<PathBuf, ReportError> {
    if is_below(&run.folder) {
        return Ok(folder.join(&run.folder));
    }
    let reason = format!("its run folder {:?} is not below it", fedsi_data::display_name(&run.folder));
    Err(ReportError::Content { path: folder.join("compare.json"), reason })
}

impl Pool {
    fn add(&mut self, found: Predictions) -> Result<(), ReportError> {
        let failed = |error: fedsi_metrics::MetricsError| ReportError::Drawing(error.to_string());
        match found {
            Predictions::Classes { classes, probabilities, labels } => {
                if matches!(self, Self::Empty) {
                    *self = Self::Classes(ReliabilityTable::new(Bins::default()));
                }
                let Self::Classes(table) = self else { return Err(unlike()) };
                let rows =
                    fedsi_metrics::Predictions::new(&probabilities, &labels, classes).map_err(failed)?;
                for row in rows.rows() {
                    table.record(row.confidence(), row.is_correct());
                }
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                GaussianPredictions::new(&mean, &variance, &targets, outputs).map_err(failed)?;
                if matches!(self, Self::Empty) {
                    *self = Self::Values { outputs, parts: Default::default() };
                }
                match self {
                    Self::Values { outputs: known, parts } if *known == outputs => {
                        for (all, own) in parts.iter_mut().zip([mean, variance, targets]) {
                            all.extend(own);
                        }
                    }
                    _ => return Err(unlike()),
                }
            }
        }
        Ok(())
    }

    fn calibration(&self) -> Option<Calibration> {
        match self {
            Self::Empty => None,
            Self::Classes(table) => Some(Calibration::Reliability {
                bins: table.bins().collect(),
                ece: table.ece()?,
                floor: table.ece_floor()?.mean,
            }),
            Self::Values { outputs, parts: [mean, variance, targets] } => {
                let rows = GaussianPredictions::new(mean, variance, targets, *outputs).ok()?;
                let level = |step: usize| step as f64 / (LEVELS + 1) as f64;
                let points = (1..=LEVELS).filter_map(|step| Some((level(step), rows.coverage(level(step))?)));
                Some(Calibration::Coverage { points: points.collect(), inside: rows.coverage(0.9)? })
            }
        }
    }
}

fn unlike() -> ReportError {
    ReportError::Drawing("its predictions are not of the kind that other runs made".to_owned())
}
