//! A network and data in PyTorch's layout: a folder with `case.json`, `model.safetensors` and
//! `data.safetensors`.

use std::path::{Path, PathBuf};

use fedsi_bayes::Likelihood;
use fedsi_nn::{LayerSpec, Network, Targets};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;

use crate::output::BadInput;

/// `case.json`. What only describes (`order`, `body_parameters`) is checked or ignored.
#[derive(Debug, Deserialize)]
struct Description {
    task: TaskName,
    layers: Vec<LayerSpec>,
    input: Vec<usize>,
    #[serde(default)]
    outputs: Option<usize>,
    #[serde(default)]
    body_parameters: Option<usize>,
    #[serde(default)]
    subnetwork_size: Option<usize>,
    #[serde(default)]
    noise_std: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TaskName {
    Classification,
    Regression,
}

/// A case whose shapes fit together.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) network: Network,
    pub(super) parameters: Vec<f64>,
    pub(super) likelihood: Likelihood,
    /// One for each body parameter.
    pub(super) prior_variance: Vec<f64>,
    /// The prior's mean of each body parameter: zeros unless the data says otherwise.
    pub(super) prior_mean: Vec<f64>,
    pub(super) train_inputs: Vec<f64>,
    pub(super) train_targets: CaseTargets,
    pub(super) test_inputs: Vec<f64>,
    pub(super) subnetwork_size: Option<usize>,
}

/// What is to be predicted.
#[derive(Debug)]
pub(super) enum CaseTargets {
    Classes(Vec<u32>),
    Values(Vec<f64>),
}

impl CaseTargets {
    pub(super) fn borrow(&self) -> Targets<'_, f64> {
        match self {
            Self::Classes(labels) => Targets::Classes(labels),
            Self::Values(values) => Targets::Values(values),
        }
    }
}

impl Case {
    /// Reads and checks a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, BadInput> {
        let path = folder.join("case.json");
        let bad = |reason: String| BadInput(format!("{}: {reason}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| {
            bad(format!("cannot be read: {error}; a case is a folder with case.json, model.safetensors and data.safetensors"))
        })?;
        let about: Description =
            serde_json::from_str(&text).map_err(|error| bad(format!("describes no network: {error}")))?;
        let network = Network::new(&about.input, &about.layers)
            .map_err(|error| bad(format!("makes no network: {error}")))?;
        let body = network.layout().body().len();
        if let Some(claimed) = about.body_parameters.filter(|&claimed| claimed != body) {
            return Err(bad(format!(
                "`body_parameters` is {claimed}, but the layers below the head have {body}"
            )));
        }
        if let Some(claimed) = about.outputs.filter(|&claimed| claimed != network.outputs()) {
            return Err(bad(format!("`outputs` is {claimed}, but the last layer has {}", network.outputs())));
        }
        let likelihood = match (about.task, about.noise_std) {
            (TaskName::Classification, _) => Likelihood::Categorical,
            (TaskName::Regression, Some(noise)) if noise.is_finite() && noise > 0.0 => {
                Likelihood::Gaussian { noise: vec![noise; network.outputs()] }
            }
            (TaskName::Regression, _) => {
                return Err(bad("`noise_std` must be a number above 0 for regression".to_owned()));
            }
        };
        let model = Tensors::read(folder.join("model.safetensors"))?;
        let model = model.open()?;
        let mut parameters = Vec::with_capacity(network.layout().len());
        for tensor in network.layout().tensors() {
            parameters.extend(model.numbers(&tensor.name, &tensor.shape)?);
        }
        let data = Tensors::read(folder.join("data.safetensors"))?;
        let data = data.open()?;
        let (train_inputs, rows) = data.rows("train_x", network.inputs())?;
        let (test_inputs, _) = data.rows("test_x", network.inputs())?;
        let train_targets = match about.task {
            TaskName::Classification => {
                CaseTargets::Classes(data.labels("train_y", rows, network.outputs())?)
            }
            TaskName::Regression => CaseTargets::Values(data.targets("train_y", rows, network.outputs())?),
        };
        let prior_variance = data.one_each("prior_variance", body)?;
        if let Some(bad) = prior_variance.iter().find(|&&variance| variance <= 0.0) {
            return Err(data.bad(&format!("`prior_variance` holds {bad}; variances are above 0")));
        }
        let prior_mean =
            if data.has("prior_mean") { data.one_each("prior_mean", body)? } else { vec![0.0; body] };
        let subnetwork_size = about.subnetwork_size;
        Ok(Self {
            network,
            parameters,
            likelihood,
            prior_variance,
            prior_mean,
            train_inputs,
            train_targets,
            test_inputs,
            subnetwork_size,
        })
    }
}

/// A safetensors file's bytes.
struct Tensors {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Tensors {
    fn read(path: PathBuf) -> Result<Self, BadInput> {
        let bytes = std::fs::read(&path)
            .map_err(|error| BadInput(format!("{}: cannot be read: {error}", path.display())))?;
        Ok(Self { path, bytes })
    }

    fn open(&self) -> Result<Opened<'_>, BadInput> {
        let tensors = SafeTensors::deserialize(&self.bytes)
            .map_err(|error| BadInput(format!("{}: no safetensors file: {error}", self.path.display())))?;
        Ok(Opened { path: &self.path, tensors })
    }
}

struct Opened<'a> {
    path: &'a Path,
    tensors: SafeTensors<'a>,
}

impl Opened<'_> {
    fn bad(&self, reason: &str) -> BadInput {
        BadInput(format!("{}: {reason}", self.path.display()))
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    fn find(&self, name: &str) -> Result<TensorView<'_>, BadInput> {
        let names = || self.tensors.names().join(", ");
        self.tensors.tensor(name).map_err(|_| self.bad(&format!("has no `{name}`; it holds {}", names())))
    }

    /// All values in f64, every one a finite number.
    fn values(&self, name: &str) -> Result<(Vec<f64>, Vec<usize>), BadInput> {
        let tensor = self.find(name)?;
        let bytes = tensor.data();
        let values: Vec<f64> = match tensor.dtype() {
            Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
            Dtype::F32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect()
            }
            other => return Err(self.bad(&format!("`{name}` is {other:?}, expected F64 or F32"))),
        };
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(self.bad(&format!("value {index} of `{name}` is {}", values[index])));
        }
        Ok((values, tensor.shape().to_vec()))
    }

    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, BadInput> {
        let (values, found) = self.values(name)?;
        if found != shape {
            return Err(self.bad(&format!("`{name}` has the shape {found:?}, expected {shape:?}")));
        }
        Ok(values)
    }

    /// Samples in rows, however their values are shaped.
    fn rows(&self, name: &str, width: usize) -> Result<(Vec<f64>, usize), BadInput> {
        let (values, shape) = self.values(name)?;
        let rows = shape.first().copied().unwrap_or(0);
        if values.len() != rows * width {
            return Err(
                self.bad(&format!("`{name}` has the shape {shape:?}, expected rows of {width} values"))
            );
        }
        Ok((values, rows))
    }

    fn targets(&self, name: &str, rows: usize, width: usize) -> Result<Vec<f64>, BadInput> {
        let (values, shape) = self.values(name)?;
        if values.len() != rows * width || shape.first() != Some(&rows) {
            let expected = format!("{rows} rows of {width} values, as many as `train_x`");
            return Err(self.bad(&format!("`{name}` has the shape {shape:?}, expected {expected}")));
        }
        Ok(values)
    }

    fn labels(&self, name: &str, rows: usize, classes: usize) -> Result<Vec<u32>, BadInput> {
        let tensor = self.find(name)?;
        let bytes = tensor.data();
        let labels: Vec<i64> = match tensor.dtype() {
            Dtype::I64 => bytes.as_chunks::<8>().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
            Dtype::I32 => {
                bytes.as_chunks::<4>().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).collect()
            }
            Dtype::U8 => bytes.iter().map(|&b| i64::from(b)).collect(),
            other => return Err(self.bad(&format!("`{name}` is {other:?}, expected I64, I32 or U8"))),
        };
        if labels.len() != rows {
            return Err(self.bad(&format!("`{name}` has {} labels, expected {rows}", labels.len())));
        }
        let label = |(row, &label): (usize, &i64)| match u32::try_from(label) {
            Ok(class) if (class as usize) < classes => Ok(class),
            _ => Err(self.bad(&format!("label {label} of row {row} is not in 0..{classes}"))),
        };
        labels.iter().enumerate().map(label).collect()
    }

    /// One value for each of `count` parameters, or one for all.
    fn one_each(&self, name: &str, count: usize) -> Result<Vec<f64>, BadInput> {
        let (values, shape) = self.values(name)?;
        match values.len() {
            found if found == count => Ok(values),
            1 => Ok(vec![values[0]; count]),
            _ => Err(self.bad(&format!(
                "`{name}` has the shape {shape:?}, expected one value for each of the {count} body parameters, or one"
            ))),
        }
    }
}
