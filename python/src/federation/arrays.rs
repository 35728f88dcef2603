//! A site's own arrays: training inputs and targets, test inputs and targets.

use fedsi_data::{Targets, Task};
use fedsi_fl::Checked;
use numpy::{PyArrayDyn, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::Kind;

/// Training and test samples as the site's code gives them, copied once.
pub(super) struct Arrays {
    pub(super) train: (Vec<f32>, Targets),
    pub(super) test: (Vec<f32>, Targets),
    /// The shape of one input.
    pub(super) shape: Vec<usize>,
    /// Columns of regression targets; none of classes.
    outputs: Option<usize>,
}

/// Inputs with the shape of one, and targets with their columns.
struct Split {
    inputs: Vec<f32>,
    shape: Vec<usize>,
    targets: Targets,
    outputs: Option<usize>,
}

impl Arrays {
    /// Reads `(x_train, y_train, x_test, y_test)`; both of test may be `None`.
    pub(super) fn read(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let four: [Bound<'_, PyAny>; 4] = data.extract().map_err(|_| {
            let found = data.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            Kind::Input.error(format!(
                "data: expected None, a dict of where the site's files are, or (x_train, y_train, x_test, y_test); found {found}"
            ))
        })?;
        let [x_train, y_train, x_test, y_test] = four;
        let train = Split::read("train", &x_train, &y_train)?;
        let test = match x_test.is_none() && y_test.is_none() {
            true => None,
            false => Some(Split::read("test", &x_test, &y_test)?),
        };
        if let Some(test) = &test
            && (&test.shape, test.outputs) != (&train.shape, train.outputs)
        {
            return Err(Kind::Input.error(format!(
                "data: test inputs of shape {:?} and training inputs of shape {:?}, or targets of another kind: expected the \
                 same of both",
                test.shape, train.shape
            )));
        }
        let nothing = match train.outputs {
            None => Targets::Classes(Vec::new()),
            Some(_) => Targets::Values(Vec::new()),
        };
        let test = test.map_or((Vec::new(), nothing), |test| (test.inputs, test.targets));
        let Split { inputs, shape, targets, outputs } = train;
        Ok(Self { train: (inputs, targets), test, shape, outputs })
    }

    /// Training and test rows.
    pub(super) fn rows(&self) -> [usize; 2] {
        let rows = |targets: &Targets| match targets {
            Targets::Classes(classes) => classes.len(),
            Targets::Values(values) => values.len() / self.outputs.unwrap_or(1).max(1),
        };
        [rows(&self.train.1), rows(&self.test.1)]
    }

    /// What is predicted: numbers where targets are floating-point numbers; classes where they are whole, as many as the
    /// network has outputs, the config names, or the config's dataset has.
    pub(super) fn task(&self, config: &Checked, network_outputs: Option<usize>) -> PyResult<Task> {
        if let Some(outputs) = self.outputs {
            return Ok(Task::Regression { outputs });
        }
        let listed = Some(config.data.files.classes.len()).filter(|&classes| classes > 0);
        let known = || match config.dataset().form()?.task {
            Task::Classification { classes } => Some(classes),
            Task::Regression { .. } => None,
        };
        match network_outputs.or(listed).or_else(known) {
            Some(classes) => Ok(Task::Classification { classes }),
            None => Err(Kind::Data.error(
                "data: how many classes there are is not known to a single site; set data.files.classes to their names, or pass \
                 a network",
            )),
        }
    }
}

impl Split {
    fn read(name: &str, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<Self> {
        let inputs = floats(&format!("x_{name}"), x)?;
        let Some((&rows, shape)) = inputs.shape().split_first().filter(|(_, shape)| !shape.is_empty()) else {
            return Err(Kind::Input.error(format!(
                "x_{name}: expected rows of inputs, at least two dimensions, found shape {:?}",
                inputs.shape()
            )));
        };
        let (targets, outputs) = read_targets(&format!("y_{name}"), y, rows)?;
        Ok(Self { shape: shape.to_vec(), inputs: inputs.readonly().as_slice()?.to_vec(), targets, outputs })
    }
}

/// An array as contiguous numbers of single precision.
fn floats<'py>(name: &str, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    contiguous(array, "float32")
        .and_then(|array| array.cast_into::<PyArrayDyn<f32>>().map_err(Into::into))
        .map_err(|error| Kind::Input.error(format!("{name}: expected an array of numbers: {error}")))
}

fn contiguous<'py>(array: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let settings = PyDict::new(py);
    settings.set_item("dtype", dtype)?;
    py.import("numpy")?.call_method("ascontiguousarray", PyTuple::new(py, [array])?, Some(&settings))
}

/// Classes where the array is of whole numbers, else values; and their columns.
fn read_targets(name: &str, y: &Bound<'_, PyAny>, rows: usize) -> PyResult<(Targets, Option<usize>)> {
    let refuse = |what: String| Kind::Input.error(format!("{name}: {what}"));
    let array = y.py().import("numpy")?.call_method1("asarray", (y,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if shape.first() != Some(&rows) {
        return Err(refuse(format!("expected {rows} targets, one for each input, found shape {shape:?}")));
    }
    if kind == "i" || kind == "u" {
        if shape.len() > 1 {
            return Err(refuse(format!("expected one class for each input, found shape {shape:?}")));
        }
        let classes = contiguous(&array, "int64")?.cast_into::<PyArrayDyn<i64>>()?;
        let read = classes.readonly();
        let number = |&class: &i64| {
            u32::try_from(class)
                .map_err(|_| refuse(format!("expected classes counted from 0, found {class}")))
        };
        let classes = read.as_slice()?.iter().map(number).collect::<PyResult<_>>()?;
        return Ok((Targets::Classes(classes), None));
    }
    if kind != "f" || shape.len() > 2 {
        return Err(refuse(format!(
            "expected whole numbers (classes) or floating-point numbers (values) in one or two dimensions, found dtype kind \
             {kind:?} of shape {shape:?}"
        )));
    }
    let values = floats(name, &array)?.readonly().as_slice()?.to_vec();
    Ok((Targets::Values(values), Some(shape.get(1).copied().unwrap_or(1))))
}
