//! Networks, numbers and errors on their way between Python and the crates.

use std::sync::Arc;

use fedsi_bayes::{LaplaceError, LinearisedNetwork, PosteriorError};
use fedsi_nn::Targets;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::errors::Kind;
use crate::network::{PythonNetwork, layers, python_error};

/// A network: `(input shape, layers as JSON)` for one of ours, or an object with the methods of a `TorchNetwork`.
pub(super) fn network_of(value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn LinearisedNetwork>> {
    match value.extract::<(Vec<usize>, String)>() {
        Ok((input, layers)) => Ok(Arc::new(layers::network(&layers, &input)?)),
        Err(_) => Ok(PythonNetwork::new(value)?),
    }
}

/// What is to be predicted, of each sample.
#[derive(Clone, Debug)]
pub(super) enum OwnTargets {
    Classes(Vec<u32>),
    Values(Vec<f64>),
}

impl OwnTargets {
    /// Labels, or values; exactly one of them is given.
    pub(super) fn of(
        labels: Option<PyReadonlyArray1<'_, i64>>,
        values: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Self> {
        match (labels, values) {
            (Some(labels), None) => {
                let class = |(row, &label): (usize, &i64)| {
                    u32::try_from(label).map_err(|_| {
                        Kind::Input.error(format!("label {label} of row {row}: classes are counted from 0"))
                    })
                };
                let labels = labels.as_array().iter().enumerate().map(class).collect::<PyResult<_>>()?;
                Ok(Self::Classes(labels))
            }
            (None, Some(values)) => Ok(Self::Values(values.as_array().iter().copied().collect())),
            _ => Err(Kind::Input.error("targets: expected labels for classes, or values for a regression")),
        }
    }

    pub(super) fn borrow(&self) -> Targets<'_, f64> {
        match self {
            Self::Classes(labels) => Targets::Classes(labels),
            Self::Values(values) => Targets::Values(values),
        }
    }
}

/// Samples in rows, whatever the shape of one: a copy, for work without the interpreter lock. Every value is a finite number.
pub(super) fn samples_of(
    what: &str,
    array: &PyReadonlyArrayDyn<'_, f64>,
    width: usize,
) -> PyResult<Vec<f64>> {
    let view = array.as_array();
    let shape = view.shape();
    if shape.is_empty() || shape[1..].iter().product::<usize>() != width {
        return Err(Kind::Input.error(format!(
            "{what}: found the shape {shape:?}, expected rows of {width} values for this network"
        )));
    }
    let values: Vec<f64> = view.iter().copied().collect();
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        let row = place / width.max(1);
        return Err(
            Kind::Input.error(format!("{what}: row {row} holds {}, expected finite numbers", values[place]))
        );
    }
    Ok(values)
}

/// A refusal as the exception of its kind; what Python code raised, as it was.
pub(super) fn refused(error: impl Into<LaplaceError>) -> PyErr {
    let error = error.into();
    // What a torch module raised is raised as it was.
    if let Some(raised) = python_error(&error) {
        return raised;
    }
    let kind = match &error {
        LaplaceError::Posterior(PosteriorError::NotPositive | PosteriorError::TooLarge { .. })
        | LaplaceError::NoFiniteScore => Kind::Posterior,
        LaplaceError::Posterior(PosteriorError::Evaluation(_)) => Kind::Network,
        LaplaceError::Posterior(_) | LaplaceError::Selection(_) => Kind::Input,
    };
    kind.error(error)
}
