//! A model for a client that the run did not have, and what is known of how good it is.

use std::collections::HashMap;
use std::io::{self, Write as _};

use fedsi_data::{InputTable, read_labelled};
use fedsi_fl::client::Predictions;
use fedsi_metrics::{HALF_WIDTH_95, wilson};
use fedsi_run::saved::{ConformalCalibration, SavedModel, SavedRun};

use crate::args::PredictArguments;

/// One row of so many is held out: every fifth, so that classes and days that follow one another are all among them.
const ONE_OF: usize = 5;
/// With fewer rows in all none is held out.
const FEWEST: usize = 10;
/// With fewer rows held out than this a warning says that they tell little.
const TELLING: usize = 20;

/// A new client's model.
pub(super) struct Fitted {
    pub(super) model: SavedModel,
    /// Where sets or intervals are asked for: calibrated on rows that the model was not fitted to.
    pub(super) calibration: Option<ConformalCalibration>,
}

/// Fits it twice: to four fifths of the rows, to be judged on the rest, and to all of them. For sets and intervals the first
/// of these is used, because their promise needs rows that no fit has used.
pub(super) fn fit(
    run: &SavedRun,
    arguments: &PredictArguments,
    data: &std::path::Path,
    quiet: bool,
) -> anyhow::Result<Fitted> {
    let server = run.server()?;
    let (inputs, targets) = (server.input_form(run), server.target_form());
    let labelled = read_labelled(data, arguments.fit_targets.as_deref(), &inputs, &targets)?;
    let (samples, table) = (labelled.samples, labelled.table);
    let count = samples.count;
    let is_held = held_out(count, table.as_ref(), &run.config().partition.group);
    let held: Vec<usize> = (0..count).filter(|&row| is_held[row]).collect();
    let ranges = |rows: &dyn Fn(usize) -> bool| {
        let (encoding, table) = (server.encoding()?, table.as_ref()?);
        let rows: Vec<&[String]> =
            (0..count).filter(|&row| rows(row)).map(|row| super::answer::used_cells(table, row)).collect();
        Some(fedsi_data::table::ranges_of(encoding, &rows))
    };
    let judged = if held.is_empty() {
        tracing::warn!(
            "{count} rows to fit: too few to hold any out, so nothing is known of how good this client's model is"
        );
        None
    } else {
        let (held_out, rest) = samples.split(&held);
        let model = server.clone().join(run, rest)?.with_ranges(ranges(&|row| !is_held[row]));
        let predictions = model.predict_samples(&held_out)?;
        tell(&predictions, count, arguments.conformal.is_some(), quiet)?;
        Some((model, predictions))
    };
    match (arguments.conformal, judged) {
        (Some(level), Some((model, predictions))) => {
            let calibration = Some(ConformalCalibration::on(&predictions, level)?);
            Ok(Fitted { model, calibration })
        }
        (Some(level), None) => {
            let nothing = Predictions::none(targets.task);
            let calibration = Some(ConformalCalibration::on(&nothing, level)?);
            let model = server.clone().join(run, samples)?;
            Ok(Fitted { model, calibration })
        }
        (None, _) => {
            let own = ranges(&|_| true);
            let model = server.join(run, samples)?.with_ranges(own);
            Ok(Fitted { model, calibration: None })
        }
    }
}

/// Whether each row is held out: every fifth, or where the run kept the rows of a group together (a patient's, say), all
/// rows of every fifth group. None of few rows.
fn held_out(count: usize, table: Option<&InputTable>, group: &str) -> Vec<bool> {
    if count < FEWEST {
        return vec![false; count];
    }
    let column = table.and_then(|table| table.header.iter().position(|name| name == group));
    let (Some(table), Some(column)) = (table, column) else {
        return (0..count).map(|row| row % ONE_OF == ONE_OF - 1).collect();
    };
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut is_held = Vec::with_capacity(count);
    for row in &table.cells {
        let next = numbers.len();
        is_held.push(*numbers.entry(row[column].as_str()).or_insert(next) % ONE_OF == ONE_OF - 1);
    }
    is_held
}

/// Tells the figures on held-out rows, with what their number leaves open.
fn tell(predictions: &Predictions, rows: usize, is_used: bool, quiet: bool) -> io::Result<()> {
    let held = predictions.len();
    if held < TELLING {
        tracing::warn!(
            "only {held} of {rows} rows could be held out: they say little about how good this client's model is"
        );
    }
    if quiet {
        return Ok(());
    }
    let then = if is_used {
        "this model is used, since sets and intervals need rows that no fit has used"
    } else {
        "the model that is used is fitted to all of them"
    };
    let figures = figures(predictions);
    writeln!(
        io::stderr(),
        "new client: fitted to {} of {rows} rows, on the other {held}: {figures}; {then}",
        rows - held
    )
}

fn figures(predictions: &Predictions) -> String {
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => {
            let rows = probabilities.chunks_exact(*classes).zip(labels);
            let right = rows
                .clone()
                .filter(|(row, label)| fedsi_run::saved::most_probable(row).0 == **label as usize);
            let right = right.count();
            let [low, high] = wilson(right, labels.len()).unwrap_or([0.0, 1.0]);
            let losses = rows.map(|(row, &label)| {
                -f64::from(row[label as usize]).max(fedsi_metrics::PROBABILITY_FLOOR).ln()
            });
            let (nll, error) = mean_and_error(&losses.collect::<Vec<_>>());
            format!(
                "accuracy {:.1}% ({:.1} to {:.1}%), NLL {nll:.3} +- {:.3}",
                100.0 * right as f64 / labels.len() as f64,
                100.0 * low,
                100.0 * high,
                HALF_WIDTH_95 * error
            )
        }
        Predictions::Values { mean, targets, .. } => {
            let squares: Vec<f64> =
                mean.iter().zip(targets).map(|(mean, target)| (mean - target).powi(2)).collect();
            let (square, error) = mean_and_error(&squares);
            let end = |sign: f64| (square + sign * HALF_WIDTH_95 * error).max(0.0).sqrt();
            let digits = fedsi_run::six_digits;
            format!("RMSE {} ({} to {})", digits(square.sqrt()), digits(end(-1.0)), digits(end(1.0)))
        }
    }
}

/// The mean, and its standard error; infinite of one value.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_worked_by_hand() {
        // 8 of 10, z = 1.96: from Wilson's paper's formula, 0.490 to 0.943.
        let [low, high] = wilson(8, 10).unwrap();
        assert!((low - 0.4902).abs() < 1e-4 && (high - 0.9433).abs() < 1e-4, "{low} {high}");
        let [low, high] = wilson(0, 20).unwrap();
        assert!(low.abs() < 1e-12 && (high - 0.1611).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0, 0).unwrap_or([0.0, 1.0]), [0.0, 1.0]);
        // 1, 2, 3: mean 2, variance 1, standard error 1 / sqrt 3.
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && (error - 3.0_f64.sqrt().recip()).abs() < 1e-12);
    }
}
