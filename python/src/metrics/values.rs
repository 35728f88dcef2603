//! Scores of regression.

use fedsi_metrics::regression::{GaussianPredictions, LEVELS};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{copied, failure, slice};
use super::{named_intervals, owners_of};
use crate::errors::Kind;
use crate::interrupt::interruptible;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(value_scores, module)?)?;
    module.add_function(wrap_pyfunction!(value_coverage, module)?)?;
    module.add_function(wrap_pyfunction!(value_intervals, module)?)
}

/// Means, variances and targets, rows x outputs.
pub(super) struct Gaussians<'a, 'py> {
    pub(super) mean: &'a PyReadonlyArray2<'py, f64>,
    pub(super) variance: &'a PyReadonlyArray2<'py, f64>,
    pub(super) targets: &'a PyReadonlyArray2<'py, f64>,
}

impl<'a> Gaussians<'a, '_> {
    /// A checked view of them.
    pub(super) fn checked(&self) -> PyResult<GaussianPredictions<'a>> {
        for (name, array) in [("mean", self.mean), ("variance", self.variance)] {
            if array.shape() != self.targets.shape() {
                let (found, expected) = (array.shape(), self.targets.shape());
                let words = format!("{name}: found shape {found:?}, expected {expected:?}, that of targets");
                return Err(Kind::Input.error(words));
            }
        }
        let (mean, variance) = (slice("mean", self.mean)?, slice("variance", self.variance)?);
        let targets = slice("targets", self.targets)?;
        GaussianPredictions::new(mean, variance, targets, self.targets.shape()[1]).map_err(failure)
    }
}

/// All scores of regression by name; nothing of no rows.
#[pyfunction]
fn value_scores<'py>(
    py: Python<'py>,
    mean: PyReadonlyArray2<'py, f64>,
    variance: PyReadonlyArray2<'py, f64>,
    targets: PyReadonlyArray2<'py, f64>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let values = Gaussians { mean: &mean, variance: &variance, targets: &targets };
    let Some(scores) = values.checked()?.scores() else { return Ok(None) };
    let named = PyDict::new(py);
    named.set_item("rmse", scores.rmse)?;
    named.set_item("mae", scores.mae)?;
    named.set_item("nll", scores.nll)?;
    for (level, coverage) in LEVELS.into_iter().zip(scores.coverage) {
        named.set_item(format!("coverage_{:.0}", 100.0 * level), coverage)?;
    }
    named.set_item("interval_error", scores.interval_error)?;
    named.set_item("samples", scores.samples)?;
    Ok(Some(named))
}

/// The share of entries inside their central interval of this probability.
#[pyfunction]
fn value_coverage(
    mean: PyReadonlyArray2<'_, f64>,
    variance: PyReadonlyArray2<'_, f64>,
    targets: PyReadonlyArray2<'_, f64>,
    level: f64,
) -> PyResult<Option<f64>> {
    if !(0.0..1.0).contains(&level) {
        return Err(Kind::Input.error(format!("level: found {level}, expected 0 up to, not including, 1")));
    }
    let values = Gaussians { mean: &mean, variance: &variance, targets: &targets };
    Ok(values.checked()?.coverage(level))
}

/// 95% intervals of the scores by resampling clients.
#[pyfunction]
fn value_intervals<'py>(
    py: Python<'py>,
    mean: PyReadonlyArray2<'py, f64>,
    variance: PyReadonlyArray2<'py, f64>,
    targets: PyReadonlyArray2<'py, f64>,
    clients: PyReadonlyArray1<'py, i64>,
) -> PyResult<Option<(&'static str, Bound<'py, PyDict>)>> {
    let owners = owners_of(&clients)?;
    let outputs = Gaussians { mean: &mean, variance: &variance, targets: &targets }.checked()?.outputs();
    let (mean, variance, targets) =
        (copied("mean", &mean)?, copied("variance", &variance)?, copied("targets", &targets)?);
    let found = interruptible(py, move || {
        GaussianPredictions::new(&mean, &variance, &targets, outputs)?.intervals(&owners)
    })?;
    named_intervals(py, found.map_err(failure)?)
}
