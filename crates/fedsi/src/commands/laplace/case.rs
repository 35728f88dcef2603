//! A network and data in PyTorch's layout: a folder with `case.json`, `model.safetensors` and
//! `data.safetensors`.

use std::ops::Range;
use std::path::Path;

use fedsi_bayes::Likelihood;
use fedsi_nn::{LayerSpec, Network, Targets};
use schemars::JsonSchema;
use serde::Deserialize;

use super::layers::{CaseLayer, fold, network_layers};
use super::tensors::{Opened, Tensors};
use crate::output::BadInput;

/// `case.json` of `fedsi laplace`: a trained network, whose parameters are in `model.safetensors` beside it (under
/// PyTorch's names and shapes) and whose data is in `data.safetensors`. Other keys are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(title = "case.json of fedsi laplace")]
pub(super) struct Description {
    /// What the outputs are: logits of classes, or values with Gaussian noise.
    task: TaskName,
    /// The layers, in the order of `torch.nn.Sequential`.
    layers: Vec<CaseLayer>,
    /// The shape of one input: `[features]`, or `[channels, height, width]`.
    input: Vec<usize>,
    /// The number of outputs; checked where it is given.
    #[serde(default)]
    outputs: Option<usize>,
    /// The number of parameters below the head; checked where it is given.
    #[serde(default)]
    body_parameters: Option<usize>,
    /// How many parameters have a distribution, where `--subnetwork` does not say it.
    #[serde(default)]
    subnetwork_size: Option<usize>,
    /// The standard deviation of the noise of a regression, in the unit of the targets; needed there, unused in
    /// classification.
    #[serde(default)]
    noise_std: Option<f64>,
}

/// What the outputs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TaskName {
    /// Logits, one a class.
    Classification,
    /// Means of values.
    Regression,
}

/// A case whose shapes fit together.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) network: Network,
    pub(super) parameters: Vec<f64>,
    pub(super) likelihood: Likelihood,
    prior_variance: Option<Vec<f64>>,
    prior_mean: Option<Vec<f64>>,
    pub(super) train: Rows,
    pub(super) test_inputs: Vec<f64>,
    pub(super) test_targets: Option<CaseTargets>,
    /// Rows that training has not seen, for the choice of a prior variance.
    pub(super) held_out: Option<Rows>,
    pub(super) subnetwork_size: Option<usize>,
}

/// Samples with what is to be predicted.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) inputs: Vec<f64>,
    pub(super) targets: CaseTargets,
}

/// What is to be predicted.
#[derive(Clone, Debug)]
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
        let specs =
            network_layers(&about.layers).map_err(|reason| bad(format!("makes no network: {reason}")))?;
        let network =
            Network::new(&about.input, &specs).map_err(|error| bad(format!("makes no network: {error}")))?;
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
            // A layer straight before a batch normalisation is often made without a bias: the normalisation's takes its place.
            let is_bias = tensor.name.ends_with(".bias");
            if is_bias && !model.has(&tensor.name) && is_normalised(&about.layers, tensor.layer) {
                parameters.resize(parameters.len() + tensor.range.len(), 0.0);
            } else {
                parameters.extend(model.numbers(&tensor.name, &tensor.shape)?);
            }
        }
        fold(&about.layers, &network, &model, &mut parameters)?;
        let data = Tensors::read(folder.join("data.safetensors"))?;
        let data = data.open()?;
        let reader = DataReader { data: &data, network: &network, task: about.task };
        let train = reader.labelled("train_x", "train_y")?;
        let (test_inputs, test_rows) = data.rows("test_x", network.inputs())?;
        let test_targets = if data.has("test_y") { Some(reader.targets("test_y", test_rows)?) } else { None };
        let held_out =
            if data.has("held_out_x") { Some(reader.labelled("held_out_x", "held_out_y")?) } else { None };
        let prior_variance = reader.of_parameters("prior_variance")?;
        if let Some(bad) = prior_variance.iter().flatten().find(|&&variance| variance <= 0.0) {
            return Err(data.bad(&format!("`prior_variance` holds {bad}; variances are above 0")));
        }
        let prior_mean = reader.of_parameters("prior_mean")?;
        let subnetwork_size = about.subnetwork_size;
        Ok(Self {
            network,
            parameters,
            likelihood,
            prior_variance,
            prior_mean,
            train,
            test_inputs,
            test_targets,
            held_out,
            subnetwork_size,
        })
    }

    /// The prior's variances of these parameters, where the data has any.
    pub(super) fn prior_variance(&self, range: &Range<usize>) -> Result<Option<Vec<f64>>, BadInput> {
        self.of_range("prior_variance", self.prior_variance.as_deref(), range)
    }

    /// The prior's means of these parameters: zeros unless the data says otherwise.
    pub(super) fn prior_mean(&self, range: &Range<usize>) -> Result<Vec<f64>, BadInput> {
        let found = self.of_range("prior_mean", self.prior_mean.as_deref(), range)?;
        Ok(found.unwrap_or_else(|| vec![0.0; range.len()]))
    }

    fn of_range(
        &self,
        name: &str,
        values: Option<&[f64]>,
        range: &Range<usize>,
    ) -> Result<Option<Vec<f64>>, BadInput> {
        let Some(values) = values else { return Ok(None) };
        match values {
            [one] => Ok(Some(vec![*one; range.len()])),
            _ => values.get(range.clone()).map(|own| Some(own.to_vec())).ok_or_else(|| {
                BadInput(format!(
                    "data.safetensors: `{name}` has a value for each of the {} body parameters, and the head is among those \
                     that are to have a distribution: give a value for each of all {} parameters, or one",
                    values.len(),
                    self.network.layout().len()
                ))
            }),
        }
    }
}

/// Whether a batch normalisation is folded into this layer: it comes next, but for layers that do nothing.
fn is_normalised(layers: &[CaseLayer], index: usize) -> bool {
    let passes =
        |layer: &&CaseLayer| matches!(layer, CaseLayer::Inactive | CaseLayer::Network(LayerSpec::Identity));
    let next = layers.iter().skip(index + 1).find(|layer| !passes(layer));
    matches!(next, Some(CaseLayer::BatchNorm { .. }))
}

/// Reads `data.safetensors` for a network.
struct DataReader<'a> {
    data: &'a Opened<'a>,
    network: &'a Network,
    task: TaskName,
}

impl DataReader<'_> {
    fn labelled(&self, inputs: &str, targets: &str) -> Result<Rows, BadInput> {
        let (values, rows) = self.data.rows(inputs, self.network.inputs())?;
        Ok(Rows { inputs: values, targets: self.targets(targets, rows)? })
    }

    fn targets(&self, name: &str, rows: usize) -> Result<CaseTargets, BadInput> {
        let outputs = self.network.outputs();
        Ok(match self.task {
            TaskName::Classification => CaseTargets::Classes(self.data.labels(name, rows, outputs)?),
            TaskName::Regression => CaseTargets::Values(self.data.targets(name, rows, outputs)?),
        })
    }

    /// One value for each body parameter, for each of all parameters, or one for all.
    fn of_parameters(&self, name: &str) -> Result<Option<Vec<f64>>, BadInput> {
        if !self.data.has(name) {
            return Ok(None);
        }
        let (values, shape) = self.data.values(name)?;
        let layout = self.network.layout();
        let (body, all) = (layout.body().len(), layout.len());
        if values.len() == 1 || values.len() == body || values.len() == all {
            return Ok(Some(values));
        }
        Err(self.data.bad(&format!(
            "`{name}` has the shape {shape:?}, expected one value for each of the {body} body parameters, for each of all \
             {all} parameters, or one"
        )))
    }
}
