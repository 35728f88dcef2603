//! A personal model that was saved, and its predictions.

use std::path::Path;
use std::sync::Arc;

use fedsi_data::{ColumnRange, InputForm, Samples, Scaling, TableEncoding, TargetForm, Task, TaskKind};
use fedsi_fl::client::{PersonalModel, Predictions};
use fedsi_fl::methods::Uncertainty;
use fedsi_fl::network::NativeNetwork;
use fedsi_fl::parameters::Parameters;
use fedsi_fl::{Checked, Client};
use fedsi_nn::{LayerSpec, Network};
use serde::{Deserialize, Serialize};

use super::{FileProblem, SavedError, SavedRun, damaged, read};
use crate::files::{Readers, WriteError, write_failed};
use crate::model_file::{FORMAT, model_tensors, read_model, verify};
use crate::tensor_file::{
    NamedTensor, TensorFile, TensorFileError, checked_tensor_bytes, write_checked_tensors,
};

/// What the metadata of a model says of its network, its inputs and its outputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Description {
    input: Vec<usize>,
    layers: Vec<LayerSpec>,
    pub(super) class_names: Option<Vec<String>>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    /// How the columns of a table become inputs; not said by runs of 0.1 and the first of 0.2.
    #[serde(default)]
    pub(super) encoding: Option<TableEncoding>,
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
    pub(super) client: Arc<Client>,
}

impl Common {
    pub(super) fn new(description: Description, config: &Checked) -> Result<Self, FileProblem> {
        let network = Network::new(&description.input, &description.layers)?;
        let outputs = network.outputs();
        let task = match config.dataset().task_kind(&config.data) {
            TaskKind::Regression => Task::Regression { outputs },
            TaskKind::Classification => Task::Classification { classes: outputs },
        };
        let fits = |scaling: &Option<Scaling>, width: usize| {
            let sound = |one: &Scaling| {
                (one.mean.len(), one.std.len()) == (width, width) && one.std.iter().all(|&std| std > 0.0)
            };
            scaling.as_ref().is_none_or(sound)
        };
        if !fits(&description.input_scaling, network.inputs()) || !fits(&description.target_scaling, outputs)
        {
            return Err(FileProblem::Scalings);
        }
        let is_of_inputs =
            |encoding: &TableEncoding| encoding.is_valid() && encoding.width() == network.inputs();
        if !description.encoding.as_ref().is_none_or(is_of_inputs) {
            return Err(FileProblem::Encoding);
        }
        if description.class_names.as_ref().is_some_and(|names| names.len() != outputs) {
            return Err(FileProblem::ClassNames);
        }
        let procedure = (config.method().declare)(config);
        let (network, scaling) = (Arc::new(NativeNetwork::new(network)), description.target_scaling.clone());
        let client = Client::new(config, procedure, network, task, scaling, config.rules())?;
        Ok(Self { description, client: Arc::new(client) })
    }

    pub(super) fn input_form<'a>(&'a self, config: &'a Checked) -> InputForm<'a> {
        let files = config.dataset().own_files(&config.data);
        InputForm {
            files,
            shape: &self.description.input,
            columns: self.description.columns.as_deref(),
            pixels: self.description.pixels.unwrap_or(files.is_none()),
            encoding: self.description.encoding.as_ref(),
            scaling: self.description.input_scaling.as_ref(),
        }
    }

    pub(super) fn target_form(&self) -> TargetForm<'_> {
        TargetForm {
            task: self.client.task(),
            class_names: self.description.class_names.as_deref(),
            scaling: self.description.target_scaling.as_ref(),
        }
    }
}

/// What a personal model's metadata says beside its posterior.
#[derive(Deserialize)]
struct ModelMetadata {
    model: Description,
    /// Not said by runs of 0.1.
    #[serde(default)]
    run: Option<String>,
    /// What the columns of the client's own training rows hold, where the data is a table.
    #[serde(default)]
    ranges: Option<Vec<ColumnRange>>,
    /// How many values these columns have; not said by the first runs of 0.2.
    #[serde(default)]
    value_counts: Option<Vec<ValueCounts>>,
}

/// How many of a client's own training rows have a value in a column. Saved in that client's model file only, never sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueCounts {
    /// Rows with a value.
    pub values: usize,
    /// Rows without: the cell is missing or cannot be read.
    pub missing: usize,
}

/// What is known of a client's own training rows.
#[derive(Clone, Debug)]
pub(super) struct OwnRows {
    ranges: Vec<ColumnRange>,
    counts: Option<Vec<ValueCounts>>,
}

/// Whether bytes are a model that [`SavedModel::keep`] wrote.
#[must_use]
pub fn is_kept_model(bytes: &[u8]) -> bool {
    let entry = TensorFile::parse(bytes).and_then(|file| file.entry::<serde_json::Value>());
    entry.is_ok_and(|entry| entry["kept"] == true)
}

/// A personal model, ready to predict.
#[derive(Clone, Debug)]
pub struct SavedModel {
    pub(super) common: Common,
    pub(super) model: PersonalModel,
    pub(super) ranges: Option<OwnRows>,
}

/// A model's predictions for some inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicted {
    /// A probability for each class.
    Classes {
        /// How many classes.
        classes: usize,
        /// Rows x classes, each row summing to 1.
        probabilities: Vec<f32>,
        /// For each row, how far the network's outputs spread over what is known of the parameters; 0 for point models.
        variance: Vec<f64>,
    },
    /// A Gaussian for each target, in the data's own units.
    Values {
        /// How many targets.
        outputs: usize,
        /// Rows x outputs.
        mean: Vec<f64>,
        /// Rows x outputs: of the outputs, and the noise around them.
        variance: Vec<f64>,
    },
}

impl SavedModel {
    /// Reads a model of the run with this id.
    pub(super) fn read(path: &Path, config: &Checked, id: Option<&str>) -> Result<Self, SavedError> {
        let bytes = read(path)?;
        let file = TensorFile::parse(&bytes).map_err(damaged(path))?;
        // A run that has an id wrote files with checksums: one that says it is older was changed.
        let checked = if id.is_some() { file.verify() } else { verify(&file) };
        checked.map_err(damaged(path))?;
        let ModelMetadata { model, run, ranges, value_counts } = file.entry().map_err(damaged(path))?;
        if run.as_deref() != id {
            return Err(damaged(path)(FileProblem::OtherRun));
        }
        let common = Common::new(model, config).map_err(damaged(path))?;
        let columns = common.description.encoding.as_ref().map_or(0, |encoding| encoding.columns.len());
        if ranges.as_ref().is_some_and(|ranges| ranges.len() != columns)
            || value_counts.as_ref().is_some_and(|counts| counts.len() != columns)
        {
            return Err(damaged(path)(FileProblem::Encoding));
        }
        let model = read_model(&common.client, &bytes).map_err(damaged(path))?;
        for mode in &model.modes {
            match (&common.client.procedure().uncertainty, &mode.parameters) {
                (Uncertainty::None, Parameters::Point(_))
                | (Uncertainty::Laplace(_), Parameters::Laplace(_))
                | (Uncertainty::MeanField(_), Parameters::Gaussian(_))
                | (Uncertainty::Samples(_), Parameters::Samples(_)) => {}
                // Version 0.1 saved the model of a client whose posterior could not be computed.
                (Uncertainty::Laplace(_), Parameters::Point(_)) => {
                    return Err(SavedError::NoPosterior { client: model.client });
                }
                (_, found) => {
                    let found = found.kind();
                    return Err(damaged(path)(FileProblem::OtherPosterior { found }));
                }
            }
        }
        let ranges = ranges.map(|ranges| OwnRows { ranges, counts: value_counts });
        Ok(Self { common, model, ranges })
    }

    /// How the columns of a table become its inputs, where it was trained on one.
    #[must_use]
    pub const fn encoding(&self) -> Option<&TableEncoding> {
        self.common.description.encoding.as_ref()
    }

    /// What each of those columns holds in the client's own training rows, where that is known.
    #[must_use]
    pub fn ranges(&self) -> Option<&[ColumnRange]> {
        self.ranges.as_ref().map(|own| own.ranges.as_slice())
    }

    /// How many of the client's own training rows have a value in each of those columns, where that is known.
    #[must_use]
    pub fn value_counts(&self) -> Option<&[ValueCounts]> {
        self.ranges.as_ref()?.counts.as_deref()
    }

    /// Counts the values of rows of cells, in the order of the encoding's columns: what a model file says of its client's
    /// training rows.
    pub fn count_values(
        encoding: &TableEncoding,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Vec<ValueCounts> {
        let mut counts = vec![ValueCounts::default(); encoding.columns.len()];
        for cells in rows {
            for (at, (count, column)) in counts.iter_mut().zip(&encoding.columns).enumerate() {
                match cells.get(at).is_some_and(|cell| column.has_value(cell)) {
                    true => count.values += 1,
                    false => count.missing += 1,
                }
            }
        }
        counts
    }

    /// The same model, knowing what its client's rows hold, and not how many values there are.
    #[must_use]
    pub fn with_ranges(self, ranges: Option<Vec<ColumnRange>>) -> Self {
        Self { ranges: ranges.map(|ranges| OwnRows { ranges, counts: None }), ..self }
    }

    /// The model itself.
    #[must_use]
    pub const fn model(&self) -> &PersonalModel {
        &self.model
    }

    /// What is predicted.
    #[must_use]
    pub fn task(&self) -> Task {
        self.common.client.task()
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

    /// Writes the model as a file that [`SavedRun::kept`] reads: the same predictions, to the bit. Only its owner can read it.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn keep(&self, run: &SavedRun, path: &Path) -> Result<(), WriteError> {
        let (tensors, entry) =
            self.described(run).map_err(|error| write_failed(path)(std::io::Error::other(error)))?;
        write_checked_tensors(path, Readers::Owner, &tensors, &entry)
    }

    /// The bytes of such a file: tensors and metadata under the names of the present format, whatever version saved the
    /// model.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn bytes(&self, run: &SavedRun) -> Result<Vec<u8>, TensorFileError> {
        let (tensors, entry) = self.described(run)?;
        checked_tensor_bytes(&tensors, &entry)
    }

    /// The tensors and the metadata of a kept model.
    fn described(&self, run: &SavedRun) -> Result<(Vec<NamedTensor>, serde_json::Value), TensorFileError> {
        let (tensors, entry) = model_tensors(&self.common.client, &self.model);
        let mut entry = serde_json::to_value(entry).map_err(TensorFileError::Entry)?;
        entry["format"] = FORMAT.into();
        entry["run"] = run.id().into();
        entry["method"] = run.config().method.clone().into();
        entry["model"] = serde_json::to_value(&self.common.description).map_err(TensorFileError::Entry)?;
        entry["kept"] = true.into();
        if let Some(OwnRows { ranges, counts }) = &self.ranges {
            entry["ranges"] = serde_json::to_value(ranges).map_err(TensorFileError::Entry)?;
            entry["value_counts"] = serde_json::to_value(counts).map_err(TensorFileError::Entry)?;
        }
        Ok((tensors, entry))
    }

    /// The model's predictions for samples beside what is true, in the data's own units.
    ///
    /// # Errors
    /// Predictions that are not finite.
    pub fn predict_samples(&self, samples: &Samples) -> Result<Predictions, SavedError> {
        let client = self.model.client;
        let found = self.common.client.predict(&self.model, samples);
        let found = found.map_err(|source| SavedError::Prediction { client, source })?;
        if found.are_finite() { Ok(found) } else { Err(SavedError::NotFinite { client }) }
    }

    /// Predicts every row of `inputs`, scaled as the run's data was: the same bits as in the run itself. Costs two
    /// forward passes a draw, or a posterior's outputs twice.
    ///
    /// # Errors
    /// Predictions that are not finite.
    pub fn predict(&self, inputs: &[f32]) -> Result<Predicted, SavedError> {
        let client = &self.common.client;
        let failed = |source| SavedError::Prediction { client: self.model.client, source };
        let (predicted, finite) = match client.task() {
            Task::Classification { classes } => {
                let probabilities = client.probabilities(&self.model, inputs).map_err(failed)?;
                let probabilities: Vec<f32> =
                    probabilities.into_iter().map(|probability| probability as f32).collect();
                let variance = client.spread(&self.model, inputs).map_err(failed)?;
                let finite =
                    probabilities.iter().all(|p| p.is_finite()) && variance.iter().all(|v| v.is_finite());
                (Predicted::Classes { classes, probabilities, variance }, finite)
            }
            Task::Regression { outputs } => {
                let (mean, variance) = client.values(&self.model, inputs).map_err(failed)?;
                let finite = mean.iter().chain(&variance).all(|value| value.is_finite());
                (Predicted::Values { outputs, mean, variance }, finite)
            }
        };
        if !finite {
            return Err(SavedError::NotFinite { client: self.model.client });
        }
        Ok(predicted)
    }

    /// How strange each row of `inputs` is beside the client's training inputs, in standard deviations of theirs: larger
    /// is stranger. None where the model does not know: see [`Client::strangeness`]. Costs two forward passes, and about as
    /// much again.
    ///
    /// # Errors
    /// Scores that are not finite.
    pub fn strangeness(&self, inputs: &[f32]) -> Result<Option<Vec<f64>>, SavedError> {
        let client = self.model.client;
        let found = self.common.client.strangeness(&self.model, inputs);
        let scores = found.map_err(|source| SavedError::Prediction { client, source })?;
        match scores {
            Some(scores) if !scores.iter().all(|score| score.is_finite()) => {
                Err(SavedError::NotFinite { client })
            }
            scores => Ok(scores),
        }
    }
}
