//! A personal model that was saved, and what it says of inputs.

use std::path::Path;

use fedsi_data::{DatasetName, InputForm, Scaling, TargetForm, Task, TaskKind};
use fedsi_nn::{LayerSpec, Network};
use safetensors::SafeTensors;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{SavedError, SavedRun, damaged, read};
use crate::belief::{Belief, PersonalModel};
use crate::config::Checked;
use crate::methods::{Procedure, Uncertainty};
use crate::model_file::read_model;
use crate::predictor::Predictor;
use crate::work::Trade;

/// What the metadata of a model says of its network, its inputs and its outputs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Description {
    input: Vec<usize>,
    layers: Vec<LayerSpec>,
    pub(super) class_names: Option<Vec<String>>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    /// Not said by the first runs.
    #[serde(default)]
    pixels: Option<bool>,
    input_scaling: Option<Scaling>,
    pub(super) target_scaling: Option<Scaling>,
}

/// What all models of a run have in common, from its config and any model's description.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) description: Description,
    pub(super) task: Task,
    pub(super) procedure: Procedure,
    pub(super) trade: Trade,
}

impl Common {
    pub(super) fn new(description: Description, config: &Checked) -> Result<Self, String> {
        let network =
            Network::new(&description.input, &description.layers).map_err(|error| error.to_string())?;
        let outputs = network.outputs();
        let task = match (config.data.dataset, config.data.files.task) {
            (DatasetName::Files, TaskKind::Regression) => Task::Regression { outputs },
            _ => Task::Classification { classes: outputs },
        };
        let fits = |scaling: &Option<Scaling>, width: usize| {
            let sound = |one: &Scaling| {
                (one.mean.len(), one.std.len()) == (width, width) && one.std.iter().all(|&std| std > 0.0)
            };
            scaling.as_ref().is_none_or(sound)
        };
        if !fits(&description.input_scaling, network.inputs()) || !fits(&description.target_scaling, outputs)
        {
            return Err("its scalings are not of its inputs and outputs".to_owned());
        }
        if description.class_names.as_ref().is_some_and(|names| names.len() != outputs) {
            return Err("its class names are not as many as its outputs".to_owned());
        }
        let procedure = (config.method().declare)(config);
        let trade = Trade::of_run(network, task, config);
        Ok(Self { description, task, procedure, trade })
    }

    pub(super) fn input_form<'a>(&'a self, config: &'a Checked) -> InputForm<'a> {
        InputForm {
            dataset: config.data.dataset,
            files: &config.data.files,
            shape: &self.description.input,
            columns: self.description.columns.as_deref(),
            pixels: self.description.pixels.unwrap_or(config.data.dataset != DatasetName::Files),
            scaling: self.description.input_scaling.as_ref(),
        }
    }

    pub(super) fn target_form(&self) -> TargetForm<'_> {
        TargetForm {
            task: self.task,
            class_names: self.description.class_names.as_deref(),
            scaling: self.description.target_scaling.as_ref(),
        }
    }
}

/// The entry of a model's metadata that is fedsi's.
pub(super) fn about<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let entry =
        header.metadata().as_ref().and_then(|map| map.get("fedsi")).ok_or("it has no `fedsi` entry")?;
    serde_json::from_str(entry).map_err(|error| format!("its `fedsi` entry: {error}"))
}

/// What a personal model's metadata says beside its posterior.
#[derive(Deserialize)]
struct About {
    model: Description,
    /// Null where it was no number.
    #[serde(default)]
    noise: Vec<Option<f64>>,
}

/// A personal model, ready to predict.
#[derive(Clone, Debug)]
pub struct SavedModel {
    pub(super) common: Common,
    pub(super) model: PersonalModel,
    /// Standard deviation of the noise of each target of a regression.
    pub(super) noise: Vec<f64>,
}

/// What a model says of some inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// A probability for each class.
    Classes {
        /// How many classes.
        classes: usize,
        /// Rows x classes, each row summing to 1.
        probabilities: Vec<f32>,
        /// For each row, how far the network's outputs spread over what the model believes; 0 for point models.
        variance: Vec<f64>,
    },
    /// A Gaussian for each target, in the data's own units.
    Values {
        /// How many targets.
        outputs: usize,
        /// Rows x outputs.
        mean: Vec<f64>,
        /// Rows x outputs: what the model believes and the noise around it.
        variance: Vec<f64>,
    },
}

impl SavedModel {
    pub(super) fn read(path: &Path, config: &Checked) -> Result<Self, SavedError> {
        let bytes = read(path)?;
        let bad = |reason: String| damaged(path, reason);
        let About { model, noise } = about(&bytes).map_err(bad)?;
        let common = Common::new(model, config).map_err(bad)?;
        let model = read_model(&common.trade.network, &bytes).map_err(bad)?;
        let laplace = matches!(common.procedure.uncertainty, Uncertainty::Laplace(_));
        if laplace && model.belief == Belief::Point {
            let reason = "its posterior could not be computed in the run".to_owned();
            return Err(SavedError::Diverged { client: model.client, reason });
        }
        let expected = match common.task {
            Task::Regression { outputs } => outputs,
            Task::Classification { .. } => 0,
        };
        if noise.len() != expected {
            return Err(bad(format!("`noise` has {} numbers, expected {expected}", noise.len())));
        }
        let noise = noise.into_iter().map(|noise| noise.unwrap_or(f64::NAN)).collect();
        Ok(Self { common, model, noise })
    }

    /// The model itself.
    #[must_use]
    pub const fn model(&self) -> &PersonalModel {
        &self.model
    }

    /// What is predicted.
    #[must_use]
    pub const fn task(&self) -> Task {
        self.common.task
    }

    /// The names of the classes, where they have any.
    #[must_use]
    pub fn class_names(&self) -> Option<&[String]> {
        self.common.description.class_names.as_deref()
    }

    /// How regression targets were standardised.
    #[must_use]
    pub const fn target_scaling(&self) -> Option<&Scaling> {
        self.common.description.target_scaling.as_ref()
    }

    /// How files become inputs of this model.
    #[must_use]
    pub fn input_form<'a>(&'a self, run: &'a SavedRun) -> InputForm<'a> {
        self.common.input_form(run.config())
    }

    /// What the model says of every row of `inputs`, scaled as the run's data was: the same bits as the run itself
    /// would say. Costs two forward passes a draw, or a posterior's outputs twice.
    ///
    /// # Errors
    /// Predictions that are not finite.
    pub fn answer(&self, inputs: &[f32]) -> Result<Answers, SavedError> {
        let predictor = Predictor {
            trade: &self.common.trade,
            task: self.common.task,
            scaling: self.target_scaling(),
            uncertainty: &self.common.procedure.uncertainty,
        };
        let (answers, finite) = match self.common.task {
            Task::Classification { classes } => {
                let probabilities: Vec<f32> = predictor
                    .probabilities(&self.model, inputs)
                    .into_iter()
                    .map(|probability| probability as f32)
                    .collect();
                let variance = predictor.spread(&self.model, inputs);
                let finite =
                    probabilities.iter().all(|p| p.is_finite()) && variance.iter().all(|v| v.is_finite());
                (Answers::Classes { classes, probabilities, variance }, finite)
            }
            Task::Regression { outputs } => {
                let (mean, variance) = predictor.values(&self.model, inputs, &self.noise);
                let finite = mean.iter().chain(&variance).all(|value| value.is_finite());
                (Answers::Values { outputs, mean, variance }, finite)
            }
        };
        if !finite {
            let reason = "it predicts values that are not finite".to_owned();
            return Err(SavedError::Diverged { client: self.model.client, reason });
        }
        Ok(answers)
    }
}
