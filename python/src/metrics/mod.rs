//! Scores of predictions in numpy arrays. Arrays are read where they lie while the lock is held; work that takes longer
//! than a pass copies them once and releases it.

mod arrays;
mod conformal;
mod values;

use fedsi_metrics::{Bins, Intervals, MeanOf, Predictions, Resampled, RiskCoverage, entropy, mean_interval};
use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use arrays::{Probabilities, copied, failure, labels_of, scored, slice};

use crate::errors::Kind;
use crate::interrupt::interruptible;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(class_scores, module)?)?;
    module.add_function(wrap_pyfunction!(reliability, module)?)?;
    module.add_function(wrap_pyfunction!(confusion, module)?)?;
    module.add_function(wrap_pyfunction!(class_aurocs, module)?)?;
    module.add_function(wrap_pyfunction!(class_intervals, module)?)?;
    module.add_function(wrap_pyfunction!(entropies, module)?)?;
    module.add_function(wrap_pyfunction!(risk_coverage, module)?)?;
    module.add_function(wrap_pyfunction!(auroc, module)?)?;
    module.add_function(wrap_pyfunction!(interval_of_mean, module)?)?;
    conformal::register(module)?;
    values::register(module)
}

/// All scores of classification by name; nothing of no rows.
#[pyfunction]
fn class_scores<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    labels: PyReadonlyArray1<'py, i64>,
    bins: usize,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let bins = Bins::new(bins).map_err(failure)?;
    let Some(scores) = scored!(probabilities, labels, |predictions| predictions.scores(bins)) else {
        return Ok(None);
    };
    let named = PyDict::new(py);
    for (name, value) in [
        ("accuracy", scores.accuracy),
        ("balanced_accuracy", scores.balanced_accuracy),
        ("nll", scores.nll),
        ("brier", scores.brier),
        ("ece", scores.ece),
        ("ece_floor", scores.ece_floor),
        ("ece_floor_std", scores.ece_floor_std),
        ("mce", scores.mce),
        ("mce_1pct", scores.mce_1pct),
        ("aurc", scores.aurc),
    ] {
        named.set_item(name, value)?;
    }
    named.set_item("samples", scores.samples)?;
    Ok(Some(named))
}

type Columns<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

/// The bins of a reliability diagram: low, high, count, confidence, accuracy.
#[pyfunction]
fn reliability<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    labels: PyReadonlyArray1<'py, i64>,
    bins: usize,
) -> PyResult<Columns<'py>> {
    let bins = Bins::new(bins).map_err(failure)?;
    let table = scored!(probabilities, labels, |predictions| predictions.reliability(bins));
    let rows: Vec<_> = table.bins().collect();
    let column = |of: fn(&fedsi_metrics::ReliabilityBin) -> f64| -> Bound<'py, PyArray1<f64>> {
        rows.iter().map(of).collect::<Vec<f64>>().into_pyarray(py)
    };
    let counts: Vec<i64> = rows.iter().map(|bin| bin.count as i64).collect();
    Ok((
        column(|bin| bin.lo),
        column(|bin| bin.hi),
        counts.into_pyarray(py),
        column(|bin| bin.confidence),
        column(|bin| bin.accuracy),
    ))
}

/// How often each class (columns) was predicted for samples of each class (rows).
#[pyfunction]
fn confusion<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    labels: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let classes = probabilities.classes();
    let matrix = scored!(probabilities, labels, |predictions| predictions.confusion());
    let counts: Vec<i64> = matrix.rows().flatten().map(|&count| count as i64).collect();
    counts.into_pyarray(py).reshape([classes, classes])
}

/// AUROC of each class against the rest; NaN of a class that no sample is of, or all are of.
#[pyfunction]
fn class_aurocs<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    labels: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let found = scored!(probabilities, labels, |predictions| predictions.class_aurocs());
    Ok(found.into_iter().map(|auroc| auroc.unwrap_or(f64::NAN)).collect::<Vec<_>>().into_pyarray(py))
}

/// 95% intervals of the scores by resampling clients: what was drawn, and the ends by name.
#[pyfunction]
fn class_intervals<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    labels: PyReadonlyArray1<'py, i64>,
    clients: PyReadonlyArray1<'py, i64>,
) -> PyResult<Option<(&'static str, Bound<'py, PyDict>)>> {
    let classes = probabilities.classes();
    let labels = labels_of(&labels, classes)?;
    let owners = owners_of(&clients)?;
    let found = match probabilities {
        Probabilities::Single(array) => {
            let values = copied("probabilities", &array)?;
            interruptible(py, move || Predictions::new(&values, &labels, classes)?.intervals(&owners, None))?
        }
        Probabilities::Double(array) => {
            let values = copied("probabilities", &array)?;
            interruptible(py, move || Predictions::new(&values, &labels, classes)?.intervals(&owners, None))?
        }
    };
    named_intervals(py, found.map_err(failure)?)
}

fn named_intervals(
    py: Python<'_>,
    found: Option<Intervals>,
) -> PyResult<Option<(&'static str, Bound<'_, PyDict>)>> {
    let Some(Intervals { resampled, figures }) = found else { return Ok(None) };
    let named = PyDict::new(py);
    for (name, [low, high]) in figures {
        named.set_item(name, (low, high))?;
    }
    let unit = match resampled {
        Resampled::Clients => "clients",
        Resampled::Rows => "rows",
    };
    Ok(Some((unit, named)))
}

/// Numbers of clients, as they were counted by the package.
fn owners_of(clients: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<usize>> {
    let number = |(row, &client): (usize, &i64)| {
        usize::try_from(client)
            .map_err(|_| Kind::Input.error(format!("clients, row {row}: found {client}, expected 0 or more")))
    };
    clients.as_array().iter().enumerate().map(number).collect()
}

/// The entropy of each row in nats.
#[pyfunction]
fn entropies<'py>(py: Python<'py>, probabilities: Probabilities<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let classes = probabilities.classes().max(1);
    let found: Vec<f64> = match &probabilities {
        Probabilities::Single(array) => {
            slice("probabilities", array)?.chunks_exact(classes).map(entropy).collect()
        }
        Probabilities::Double(array) => {
            slice("probabilities", array)?.chunks_exact(classes).map(entropy).collect()
        }
    };
    Ok(found.into_pyarray(py))
}

type Curve<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64);

/// Coverage, risk and the largest uncertainty answered, from the most certain row on, and the area.
#[pyfunction]
fn risk_coverage<'py>(
    py: Python<'py>,
    uncertainty: PyReadonlyArray1<'py, f64>,
    correct: PyReadonlyArray1<'py, bool>,
) -> PyResult<Option<Curve<'py>>> {
    let uncertainty = slice("uncertainty", &uncertainty)?;
    let curve = RiskCoverage::new(uncertainty, slice("correct", &correct)?).map_err(failure)?;
    let Some(curve) = curve else { return Ok(None) };
    let column = |of: fn(&fedsi_metrics::RiskPoint) -> f64| -> Bound<'py, PyArray1<f64>> {
        curve.points().iter().map(of).collect::<Vec<f64>>().into_pyarray(py)
    };
    Ok(Some((
        column(|point| point.coverage),
        column(|point| point.risk),
        column(|point| point.uncertainty),
        curve.area(),
    )))
}

/// How likely a positive scores above a negative, ties counting one half.
#[pyfunction]
fn auroc(
    negatives: PyReadonlyArray1<'_, f64>,
    positives: PyReadonlyArray1<'_, f64>,
) -> PyResult<Option<f64>> {
    let (negatives, positives) = (slice("negatives", &negatives)?, slice("positives", &positives)?);
    fedsi_metrics::auroc(negatives, positives).map_err(failure)
}

/// The mean of values and its 95% interval by resampling clients.
#[pyfunction]
fn interval_of_mean(
    py: Python<'_>,
    values: PyReadonlyArray1<'_, f64>,
    clients: PyReadonlyArray1<'_, i64>,
    kind: &str,
) -> PyResult<Option<(f64, f64, f64)>> {
    let of = match kind {
        "shares" => MeanOf::Shares,
        "positive" => MeanOf::Positive,
        "numbers" => MeanOf::Numbers,
        other => {
            return Err(
                Kind::Input.error(format!("kind: found {other:?}, expected shares, positive or numbers"))
            );
        }
    };
    let (values, owners) = (copied("values", &values)?, owners_of(&clients)?);
    let found = interruptible(py, move || mean_interval((&values, &owners), of))?;
    Ok(found.map(|estimate| (estimate.value, estimate.interval[0], estimate.interval[1])))
}
