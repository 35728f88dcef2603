//! Conformal sets and intervals.

use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{
    ConformalCoverage, Predictions, class_nonconformity, conformal_intervals_found, conformal_quantile,
    conformal_set, conformal_sets_found, fewest_calibration_samples, value_nonconformity,
};
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::arrays::{Probabilities, copied, failure, labels_of, scored, slice};
use super::owners_of;
use super::values::Gaussians;
use crate::errors::Kind;
use crate::interrupt::interruptible;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(conformal_fewest, module)?)?;
    module.add_function(wrap_pyfunction!(conformal_class_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(conformal_value_thresholds, module)?)?;
    module.add_function(wrap_pyfunction!(conformal_sets, module)?)?;
    module.add_function(wrap_pyfunction!(conformal_judge_sets, module)?)?;
    module.add_function(wrap_pyfunction!(conformal_judge_intervals, module)?)
}

/// The fewest samples from which a level is calibrated.
#[pyfunction]
fn conformal_fewest(level: f64) -> PyResult<usize> {
    if !(0.0..1.0).contains(&level) {
        return Err(Kind::Input.error(format!("level: found {level}, expected 0 up to, not including, 1")));
    }
    Ok(fewest_calibration_samples(level))
}

/// Refuses so few samples that a level means nothing.
fn enough(samples: usize, level: f64) -> PyResult<()> {
    let needed = conformal_fewest(level)?;
    if samples >= needed {
        return Ok(());
    }
    Err(Kind::Input.error(format!(
        "{needed} held-out rows are needed for sets or intervals of level {level}, and there are {samples}: give more \
         rows, or a lower level"
    )))
}

/// The largest nonconformity (1 less the probability of a class) that is inside.
#[pyfunction]
fn conformal_class_threshold(
    probabilities: Probabilities<'_>,
    labels: PyReadonlyArray1<'_, i64>,
    level: f64,
) -> PyResult<f64> {
    let scores = scored!(probabilities, labels, |predictions| class_nonconformity(&predictions));
    enough(scores.len(), level)?;
    Ok(conformal_quantile(&scores, level).unwrap_or(f64::INFINITY))
}

/// The same of each output: a distance from the mean in predicted deviations.
#[pyfunction]
fn conformal_value_thresholds<'py>(
    py: Python<'py>,
    mean: PyReadonlyArray2<'py, f64>,
    variance: PyReadonlyArray2<'py, f64>,
    targets: PyReadonlyArray2<'py, f64>,
    level: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let values = Gaussians { mean: &mean, variance: &variance, targets: &targets };
    let predictions = values.checked()?;
    enough(predictions.len(), level)?;
    let (outputs, scores) = (predictions.outputs(), value_nonconformity(&predictions));
    let of_output = |output: usize| {
        let own: Vec<f64> = scores.iter().skip(output).step_by(outputs).copied().collect();
        conformal_quantile(&own, level).unwrap_or(f64::INFINITY)
    };
    Ok((0..outputs).map(of_output).collect::<Vec<_>>().into_pyarray(py))
}

/// Which classes are in the set of each row.
#[pyfunction]
fn conformal_sets<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    threshold: f64,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    fn sets<T: Copy + Into<f64>>(values: &[T], classes: usize, threshold: f64) -> Vec<bool> {
        let mut inside = vec![false; values.len()];
        for (row, own) in values.chunks_exact(classes).zip(inside.chunks_exact_mut(classes)) {
            conformal_set(row, threshold).into_iter().for_each(|class| own[class] = true);
        }
        inside
    }
    let classes = probabilities.classes();
    if classes == 0 {
        return Err(Kind::Input.error("probabilities: expected at least one class, found none"));
    }
    let inside = match &probabilities {
        Probabilities::Single(array) => sets(slice("probabilities", array)?, classes, threshold),
        Probabilities::Double(array) => sets(slice("probabilities", array)?, classes, threshold),
    };
    let rows = inside.len() / classes;
    inside.into_pyarray(py).reshape([rows, classes])
}

/// (client, samples, covered, mean size, whether its own samples calibrated it).
type Found = (usize, usize, usize, f64, bool);

const fn found(one: &ConformalCoverage) -> Found {
    (one.client, one.samples, one.covered, one.mean_size, one.own)
}

/// What sets of a level do, client by client, each judged by a calibration that did not see it.
#[pyfunction]
fn conformal_judge_sets(
    py: Python<'_>,
    probabilities: Probabilities<'_>,
    labels: PyReadonlyArray1<'_, i64>,
    clients: PyReadonlyArray1<'_, i64>,
    level: f64,
) -> PyResult<Vec<Found>> {
    conformal_fewest(level)?;
    let classes = probabilities.classes();
    let (labels, owners) = (labels_of(&labels, classes)?, owners_of(&clients)?);
    let judged = match probabilities {
        Probabilities::Single(array) => {
            let values = copied("probabilities", &array)?;
            interruptible(py, move || {
                conformal_sets_found(&Predictions::new(&values, &labels, classes)?, &owners, level)
            })?
        }
        Probabilities::Double(array) => {
            let values = copied("probabilities", &array)?;
            interruptible(py, move || {
                conformal_sets_found(&Predictions::new(&values, &labels, classes)?, &owners, level)
            })?
        }
    };
    Ok(judged.map_err(failure)?.iter().map(found).collect())
}

/// The same of intervals: a list for each output.
#[pyfunction]
fn conformal_judge_intervals(
    py: Python<'_>,
    mean: PyReadonlyArray2<'_, f64>,
    variance: PyReadonlyArray2<'_, f64>,
    targets: PyReadonlyArray2<'_, f64>,
    clients: PyReadonlyArray1<'_, i64>,
    level: f64,
) -> PyResult<Vec<Vec<Found>>> {
    conformal_fewest(level)?;
    let owners = owners_of(&clients)?;
    let outputs = Gaussians { mean: &mean, variance: &variance, targets: &targets }.checked()?.outputs();
    let (mean, variance, targets) =
        (copied("mean", &mean)?, copied("variance", &variance)?, copied("targets", &targets)?);
    let judged = interruptible(py, move || {
        conformal_intervals_found(
            &GaussianPredictions::new(&mean, &variance, &targets, outputs)?,
            &owners,
            level,
        )
    })?;
    Ok(judged.map_err(failure)?.iter().map(|one| one.iter().map(found).collect()).collect())
}
