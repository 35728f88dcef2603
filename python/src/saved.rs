//! Complete runs, opened: their test predictions and their clients' models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedsi_data::{ArrayNumbers, InputRows, Task, array_inputs, read_inputs};
use fedsi_fl::client::Predictions;
use fedsi_run::saved::{Predicted, SavedError, SavedModel, SavedRun as Run};
use numpy::{
    IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArrayMethods as _,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::Kind;
use crate::interrupt::interruptible;
use crate::run::folder_failure;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SavedRun>()?;
    module.add_class::<NativeModel>()
}

/// Why a saved run, or a model of it, cannot be used.
fn saved_failure(error: SavedError) -> PyErr {
    let (kind, advice) = match error {
        SavedError::Folder(error) => return folder_failure(error),
        SavedError::Unfinished { path } => {
            let path = path.display();
            return Kind::Folder.error(format!(
                "the run in {path} is not complete: it has no summary.json; wait for its end, or go on with it: \
                 fedsi.resume({:?})",
                path.to_string()
            ));
        }
        SavedError::NotARun { .. } => (Kind::Folder, "; give the folder that fedsi.run or `fedsi run` wrote"),
        SavedError::NoModels { .. } => (Kind::Folder, "; run it again with output__personal_models=True"),
        SavedError::UnknownClient { .. } => (Kind::Input, ""),
        SavedError::NoPosterior { .. } | SavedError::NotFinite { .. } | SavedError::Prediction { .. } => {
            (Kind::Posterior, "")
        }
        SavedError::Fit(_) => (Kind::Training, ""),
        SavedError::NoThreshold { .. }
        | SavedError::FewCalibrationRows { .. }
        | SavedError::FewHeldOutRows { .. }
        | SavedError::Scores(_)
        | SavedError::NoRisk => (Kind::Input, ""),
        _ => (Kind::Folder, ""),
    };
    kind.error(format!("{error}{advice}"))
}

/// A run's folder. Opening costs its config and its summary.
#[pyclass(frozen, module = "fedsi._native")]
struct SavedRun(Arc<Run>);

#[pymethods]
impl SavedRun {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self(Arc::new(Run::open(&path).map_err(saved_failure)?)))
    }

    /// All settings, as JSON.
    fn config_json(&self) -> PyResult<String> {
        let config: &fedsi_fl::Config = self.0.config();
        serde_json::to_string(config).map_err(|error| Kind::Folder.error(error))
    }

    /// The id of the client of exactly this name or, where none has it, of this id.
    fn find(&self, client: &str) -> PyResult<usize> {
        self.0.find(client).map_err(saved_failure)
    }

    /// The test predictions as arrays by name, the client of each, and how strange each is.
    fn predictions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = Arc::clone(&self.0);
        let (predictions, owners, strangeness) = interruptible(py, move || {
            let (predictions, owners) = run.predictions()?;
            let strangeness = run.test_strangeness()?;
            Ok::<_, SavedError>((predictions, owners, strangeness))
        })?
        .map_err(saved_failure)?;
        let arrays = PyDict::new(py);
        match predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                arrays.set_item("probabilities", matrix(py, probabilities, classes)?)?;
                let labels: Vec<i64> = labels.into_iter().map(i64::from).collect();
                arrays.set_item("labels", labels.into_pyarray(py))?;
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                for (name, values) in [("mean", mean), ("variance", variance), ("targets", targets)] {
                    arrays.set_item(name, matrix(py, values, outputs)?)?;
                }
            }
        }
        let owners: Vec<i64> = owners.into_iter().map(|owner| owner as i64).collect();
        arrays.set_item("client", owners.into_pyarray(py))?;
        arrays.set_item("strangeness", strangeness.map(|scores| scores.into_pyarray(py)))?;
        Ok(arrays)
    }

    /// A client's own model.
    fn model(&self, client: usize) -> PyResult<NativeModel> {
        let model = self.0.client(client).map_err(saved_failure)?;
        Ok(NativeModel { run: Arc::clone(&self.0), model: Arc::new(model) })
    }

    /// A model that `fedsi predict --keep` wrote for a client that the run did not have.
    fn kept(&self, path: PathBuf) -> PyResult<NativeModel> {
        let model = self.0.kept(&path).map_err(saved_failure)?;
        Ok(NativeModel { run: Arc::clone(&self.0), model: Arc::new(model) })
    }
}

/// Rows of so many columns as a matrix.
fn matrix<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
    columns: usize,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    values.into_pyarray(py).reshape([rows, columns])
}

/// A personal model.
#[pyclass(frozen, module = "fedsi._native")]
struct NativeModel {
    run: Arc<Run>,
    model: Arc<SavedModel>,
}

/// What a model says of rows: a matrix or two, and how strange each row is.
type Answer = (Predicted, Option<Vec<f64>>);

#[pymethods]
impl NativeModel {
    /// Whose it is.
    #[getter]
    fn client(&self) -> usize {
        self.model.model().client
    }

    /// `classification` or `regression`.
    #[getter]
    fn task(&self) -> &'static str {
        match self.model.task() {
            Task::Classification { .. } => "classification",
            Task::Regression { .. } => "regression",
        }
    }

    /// The names of the classes, where they have any.
    #[getter]
    fn class_names(&self) -> Option<Vec<String>> {
        self.model.class_names().map(<[String]>::to_vec)
    }

    /// The columns of the table that it was trained on, where it was.
    #[getter]
    fn columns(&self) -> Option<Vec<String>> {
        let encoding = self.model.encoding()?;
        Some(encoding.columns.iter().map(|column| column.name.clone()).collect())
    }

    /// The model as the bytes of a file, under the names of the present format.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.model.bytes(&self.run).map_err(|error| Kind::Folder.error(error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Rows as the network takes them: scaled as the run's data was.
    fn scaled<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = self.rows_of(x)?;
        let width = rows.inputs.len().checked_div(rows.count).unwrap_or(0);
        matrix(py, rows.inputs, width)
    }

    /// Predicts rows of an array: (probabilities, spread of the logits, strangeness), or (mean, variance, strangeness).
    fn predict<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows_of(x)?;
        self.answer(py, move |_, _| Ok(rows))
    }

    /// The same for the rows of a file.
    fn predict_file<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, move |model, run| {
            read_inputs(&path, &model.input_form(run)).map_err(|error| Kind::Data.error(error))
        })
    }

    /// Writes the model as a file for `fedsi predict --model`.
    fn keep(&self, path: PathBuf) -> PyResult<()> {
        self.model.keep(&self.run, Path::new(&path)).map_err(|error| Kind::Folder.error(error))
    }
}

impl NativeModel {
    /// The rows of an array of bytes, whole numbers or floats, scaled. Copies it: it is read without the lock afterwards.
    fn rows_of(&self, x: &Bound<'_, PyAny>) -> PyResult<InputRows> {
        let (shape, numbers) = if let Ok(array) = x.extract::<PyReadonlyArrayDyn<'_, u8>>() {
            (array.shape().to_vec(), ArrayNumbers::Bytes(array.as_array().iter().copied().collect()))
        } else if let Ok(array) = x.extract::<PyReadonlyArrayDyn<'_, i64>>() {
            (array.shape().to_vec(), ArrayNumbers::Integers(array.as_array().iter().copied().collect()))
        } else if let Ok(array) = x.extract::<PyReadonlyArrayDyn<'_, f64>>() {
            (array.shape().to_vec(), ArrayNumbers::Floats(array.as_array().iter().copied().collect()))
        } else {
            return Err(Kind::Input.error("x: expected an array of uint8, int64 or float64"));
        };
        array_inputs(&shape, numbers, &self.model.input_form(&self.run))
            .map_err(|error| Kind::Input.error(error))
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        rows: impl FnOnce(&SavedModel, &Run) -> PyResult<InputRows> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (run, model) = (Arc::clone(&self.run), Arc::clone(&self.model));
        let (predicted, strangeness) = interruptible(py, move || -> PyResult<Answer> {
            let rows = rows(&model, &run)?;
            let predicted = model.predict(&rows.inputs).map_err(saved_failure)?;
            let strangeness = model.strangeness(&rows.inputs).map_err(saved_failure)?;
            Ok((predicted, strangeness))
        })??;
        let strangeness: Option<Bound<'py, PyArray1<f64>>> = strangeness.map(|found| found.into_pyarray(py));
        let found = match predicted {
            Predicted::Classes { classes, probabilities, variance } => {
                let answer = (matrix(py, probabilities, classes)?, variance.into_pyarray(py), strangeness);
                answer.into_pyobject(py)?
            }
            Predicted::Values { outputs, mean, variance } => {
                let answer = (matrix(py, mean, outputs)?, matrix(py, variance, outputs)?, strangeness);
                answer.into_pyobject(py)?
            }
        };
        Ok(found.into_any())
    }
}
