//! Numpy arrays as the metrics take them.

use fedsi_metrics::MetricsError;
use numpy::{Element, PyReadonlyArray, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::errors::Kind;

/// Probabilities in single or double precision.
#[derive(FromPyObject)]
pub(super) enum Probabilities<'py> {
    #[pyo3(transparent)]
    Single(PyReadonlyArray2<'py, f32>),
    #[pyo3(transparent)]
    Double(PyReadonlyArray2<'py, f64>),
}

impl Probabilities<'_> {
    /// Columns.
    pub(super) fn classes(&self) -> usize {
        match self {
            Self::Single(array) => array.shape()[1],
            Self::Double(array) => array.shape()[1],
        }
    }
}

/// An argument that cannot be scored.
pub(super) fn failure(error: MetricsError) -> PyErr {
    Kind::Input.error(error)
}

/// The numbers of an array, which the package made contiguous.
pub(super) fn slice<'a, T: Element, D: numpy::ndarray::Dimension>(
    name: &str,
    array: &'a PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| Kind::Input.error(format!("{name}: expected a C-contiguous array")))
}

/// A copy of them, for work without the lock.
pub(super) fn copied<T: Element + Copy, D: numpy::ndarray::Dimension>(
    name: &str,
    array: &PyReadonlyArray<'_, T, D>,
) -> PyResult<Vec<T>> {
    Ok(slice(name, array)?.to_vec())
}

/// Labels, each a class.
pub(super) fn labels_of(labels: &PyReadonlyArray1<'_, i64>, classes: usize) -> PyResult<Vec<u32>> {
    let label = |(row, &label): (usize, &i64)| {
        u32::try_from(label).ok().filter(|&label| (label as usize) < classes).ok_or_else(|| {
            let most = classes.saturating_sub(1);
            Kind::Input.error(format!("labels, row {row}: found {label}, expected a class from 0 to {most}"))
        })
    };
    labels.as_array().iter().enumerate().map(label).collect()
}

/// Checks probabilities and labels and computes something of them, whatever the precision.
macro_rules! scored {
    ($probabilities:expr, $labels:expr, |$predictions:ident| $body:expr) => {{
        let classes = $probabilities.classes();
        let labels = $crate::metrics::arrays::labels_of(&$labels, classes)?;
        match &$probabilities {
            $crate::metrics::arrays::Probabilities::Single(array) => {
                let values = $crate::metrics::arrays::slice("probabilities", array)?;
                let $predictions =
                    fedsi_metrics::Predictions::new(values, &labels, classes).map_err(failure)?;
                $body
            }
            $crate::metrics::arrays::Probabilities::Double(array) => {
                let values = $crate::metrics::arrays::slice("probabilities", array)?;
                let $predictions =
                    fedsi_metrics::Predictions::new(values, &labels, classes).map_err(failure)?;
                $body
            }
        }
    }};
}
pub(super) use scored;
