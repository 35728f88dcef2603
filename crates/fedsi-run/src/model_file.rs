//! A personal model as a file: parameters under PyTorch's names, and what is known of them.
//!
//! | tensor | what |
//! |---|---|
//! | `0.weight`, `0.bias`, ... (F32) | the parameters: values, or means |
//! | `posterior.variance` (F32) | mean-field: a variance for each, flattened in this order |
//! | `posterior.samples` (F32) | samples: one after another, each of the head (weight, then bias) |
//! | `posterior.selected` (I64) | Laplace: the parameters that have a distribution, as indices into all |
//! | `posterior.prior_variance` (F64) | their prior variances |
//! | `posterior.variance` (F64) | their posterior variances |
//! | `posterior.live` (I64) | places in `selected` of those the data says anything of |
//! | `posterior.factor` (F64) | W, a row for each of those: their covariance is `diag(prior) - W W'` or `W W'` |
//! | `posterior.strangeness.*` | what is usual among the client's training inputs: see `fedsi_fl::wire`; not in files of 0.1 |
//!
//! Everything that is no weight begins with `posterior.`: the rest loads into PyTorch as it is. A mixture has these for each
//! of its modes, counted from 0: weights under `modes.K.` and their names, the rest under `posterior.modes.K.` and the
//! rest of theirs. The first files of 0.2 (`fedsi-model-2`) have the first mode under the names of a single network and those
//! of mode M under `mode.M.`, and `strangeness.*` without a prefix; they are read as well.
//!
//! docs/model-files.md says what each of them means.
//!
//! Which of them there are, what a factor means, and how predictions are made, is in the metadata. A model that was saved
//! and read predicts the same bits.

use fedsi_data::Task;
use fedsi_fl::Client;
use fedsi_fl::client::{PersonalMode, PersonalModel};
use fedsi_fl::wire::{
    PosteriorHeader, WireError, mode_prefix, posterior_tensors, read_posterior, read_strangeness,
    strangeness_tensors,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError, parameter_tensors, tensor_bytes};

/// Why bytes are not a personal model of some network. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// Not such a tensor file.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// What is known of the parameters does not belong together, or not to the network.
    #[error(transparent)]
    Parameters(#[from] WireError),
    /// The number of draws that predictions average is missing or cannot be used.
    #[error("its number of draws is {found:?}, expected 1 to 1048576")]
    Draws {
        /// What it says.
        found: Option<usize>,
    },
    /// A temperature that cannot be used.
    #[error("its temperature is {found}, expected a finite number above 0")]
    Temperature {
        /// What it says.
        found: f64,
    },
    /// A list of classes that are not the task's.
    #[error("its `own_classes` are {found:?}, expected numbers of classes in ascending order, at least one, of {}", classes_of(*.expected))]
    OwnClasses {
        /// What it says.
        found: Vec<u32>,
        /// What its network predicts.
        expected: Task,
    },
    /// The noise is not one number for each target.
    #[error("its `noise` has {found} numbers, expected {expected}")]
    Noise {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
}

/// A task's classes in words.
fn classes_of(task: Task) -> String {
    match task {
        Task::Classification { classes } => format!("{classes} classes"),
        Task::Regression { .. } => "a regression, which has none".to_owned(),
    }
}

/// What a model's file says its format is; files of 0.1 have another, and no checksum.
pub(crate) const FORMAT: &str = "fedsi-model-3";

/// What the server's file says its format is, and what the first models of 0.2 said.
pub(crate) const SERVER_FORMAT: &str = "fedsi-model-2";

/// What a file says of itself.
#[derive(Debug, Deserialize)]
struct FormatEntry {
    #[serde(default)]
    format: Option<String>,
}

/// Compares a file's contents with its checksum, where its format has one.
///
/// # Errors
/// Contents that were changed since the file was written.
pub(crate) fn verify(file: &TensorFile<'_>) -> Result<(), TensorFileError> {
    let FormatEntry { format } = file.entry()?;
    let has_checksum = [FORMAT, SERVER_FORMAT].into_iter().any(|known| format.as_deref() == Some(known));
    if has_checksum { file.verify() } else { Ok(()) }
}

/// Most draws that a prediction averages, as in a config.
const MAX_DRAWS: usize = 1 << 20;

/// What the metadata says of a model's parameters and predictions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ModelEntry {
    pub(crate) client: usize,
    /// Of the first mode.
    #[serde(flatten)]
    first: ModeEntry,
    /// Of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    further_modes: Vec<ModeEntry>,
    #[serde(default = "one")]
    temperature: f64,
    #[serde(default = "one")]
    mixture_temperature: f64,
    /// The classes that have a probability at all, where not all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_classes: Option<Vec<u32>>,
}

/// What the metadata says of a mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ModeEntry {
    #[serde(flatten)]
    posterior: PosteriorHeader,
    /// Regression: the noise of each target; null where it was not finite.
    #[serde(default)]
    noise: Vec<Option<f64>>,
}

/// The temperature of models that were saved without one.
const fn one() -> f64 {
    1.0
}

/// A model's tensors, and what the metadata says of it.
pub(crate) fn model_tensors(client: &Client, model: &PersonalModel) -> (Vec<NamedTensor>, ModelEntry) {
    let (mut tensors, mut entries) = (Vec::new(), Vec::with_capacity(model.modes.len()));
    for (place, PersonalMode { parameters, observation_noise }) in model.modes.iter().enumerate() {
        let mut own = parameter_tensors(client.network().layout(), parameters.values());
        let (posterior, header) = posterior_tensors(parameters);
        own.extend(posterior);
        let several = model.modes.len() > 1;
        tensors.extend(own.into_iter().map(|tensor| if several { tensor.of_mode(place) } else { tensor }));
        let noise = observation_noise.iter().map(|&noise| noise.is_finite().then_some(noise)).collect();
        entries.push(ModeEntry { posterior: header.with_draws(model.draws), noise });
    }
    let strangeness = strangeness_tensors(model.strangeness.as_ref()).into_iter();
    tensors.extend(strangeness.map(|tensor| tensor.prefixed("posterior.")));
    let PersonalModel { client, temperature, mixture_temperature, .. } = *model;
    let own_classes = model.own_classes.as_ref().map(|own| own.classes().to_vec());
    let first = entries.remove(0);
    (
        tensors,
        ModelEntry { client, first, further_modes: entries, temperature, mixture_temperature, own_classes },
    )
}

/// A personal model as the bytes of a file, with what [`read_model`] needs and no more.
///
/// # Errors
/// The format's own limits.
pub fn model_bytes(client: &Client, model: &PersonalModel) -> Result<Vec<u8>, TensorFileError> {
    let (tensors, entry) = model_tensors(client, model);
    tensor_bytes(&tensors, Some(&serde_json::to_value(entry).map_err(TensorFileError::Entry)?))
}

/// Reads a personal model of one of these clients from its file's bytes. Everything in it is checked against the network;
/// whether its bytes are those that were written is checked where a run's file is opened.
///
/// # Errors
/// Bytes that are no such file, or do not fit the network.
pub fn read_model(client: &Client, bytes: &[u8]) -> Result<PersonalModel, ModelFileError> {
    let file = TensorFile::parse(bytes)?;
    let ModelEntry { client: owner, first, further_modes, temperature, mixture_temperature, own_classes } =
        file.entry()?;
    for found in [temperature, mixture_temperature] {
        if !(found.is_finite() && found > 0.0) {
            return Err(ModelFileError::Temperature { found });
        }
    }
    let draws = match first.posterior.draws() {
        Some(draws) if (1..=MAX_DRAWS).contains(&draws) => draws,
        // Point models and samples of the head need no draws.
        None if !first.posterior.needs_draws() => 1,
        found => return Err(ModelFileError::Draws { found }),
    };
    // The first files of 0.2 had the first of several networks under the names of a single one.
    let several = !further_modes.is_empty();
    let first_name = client.network().layout().tensors().first().map_or("", |tensor| tensor.name.as_str());
    let prefixed = several && !file.has(first_name);
    let of_mode = |place: usize| if prefixed { file.mode(place) } else { file.within(&mode_prefix(place)) };
    let entries = std::iter::once(first).chain(further_modes).enumerate();
    let modes = entries.map(|(place, entry)| read_mode(client, &of_mode(place), entry));
    let modes = modes.collect::<Result<_, _>>()?;
    let beside = if file.has("strangeness.usual") { file.within("") } else { file.within("posterior.") };
    let strangeness = read_strangeness(&beside, client.network().input_size())?;
    let own_classes = match own_classes {
        Some(found) => {
            let own = client.checked_own_classes(found.clone());
            Some(own.ok_or_else(|| ModelFileError::OwnClasses { found, expected: client.task() })?)
        }
        None => None,
    };
    Ok(PersonalModel {
        client: owner,
        modes,
        draws,
        temperature,
        mixture_temperature,
        own_classes,
        strangeness,
    })
}

fn read_mode(
    client: &Client,
    file: &TensorFile<'_>,
    entry: ModeEntry,
) -> Result<PersonalMode, ModelFileError> {
    let ModeEntry { posterior, noise } = entry;
    let network = client.network();
    let observation_noise = match client.task() {
        Task::Classification { .. } => Vec::new(),
        Task::Regression { outputs } => {
            if noise.len() != outputs {
                return Err(ModelFileError::Noise { found: noise.len(), expected: outputs });
            }
            noise.into_iter().map(|noise| noise.unwrap_or(f64::NAN)).collect()
        }
    };
    let values = file.parameters(network.layout())?;
    let likelihood = client.likelihood(observation_noise.clone());
    let parameters = read_posterior(values, file, posterior, &**network, likelihood)?;
    Ok(PersonalMode { parameters, observation_noise })
}

#[cfg(test)]
mod tests {
    use fedsi_data::Size;
    use fedsi_fl::Config;
    use fedsi_nn::LayerSpec;

    use super::*;

    fn client(method: &str) -> Client {
        let mut config = Config::defaults(method, "files", Size::Small).unwrap();
        config.model.body = vec![LayerSpec::Linear(3), LayerSpec::Tanh];
        let task = Task::Classification { classes: 3 };
        Client::of_config(&config.check().unwrap(), &[2], task, None).unwrap()
    }

    /// The file with some entries of its metadata changed.
    fn changed(client: &Client, change: fn(&mut serde_json::Value)) -> Result<PersonalModel, ModelFileError> {
        let model = PersonalModel::single(1, client.initial()[0].clone(), vec![], 30);
        let (tensors, entry) = model_tensors(client, &model);
        let mut entry = serde_json::to_value(entry).unwrap();
        change(&mut entry);
        read_model(client, &tensor_bytes(&tensors, Some(&entry)).unwrap())
    }

    /// A mixture of networks with posteriors, and what is usual among inputs.
    fn mixture(client: &Client, modes: usize) -> PersonalModel {
        let mut model = PersonalModel::single(1, client.initial()[0].clone(), vec![], 30);
        model.modes = vec![model.modes[0].clone(); modes];
        // A point model averages no draws.
        if matches!(model.parameters(), fedsi_fl::parameters::Parameters::Point(_)) {
            model.draws = 1;
        }
        let inputs: Vec<f64> = (0..40 * 2).map(|at| f64::from(at * at % 31) - 15.0).collect();
        let features: Vec<f64> = (0..40 * 3).map(|at| f64::from(at * at % 17)).collect();
        let responses = fedsi_bayes::strangeness::Responses { features, logits: None };
        model.own_classes = client.checked_own_classes(vec![0, 2]);
        model.strangeness = fedsi_bayes::Strangeness::fit(40, &inputs, &vec![responses; modes], None);
        assert!(model.strangeness.is_some());
        model
    }

    /// All names but those under `posterior.` are PyTorch's, with `modes.K.` in front where there are several networks.
    #[test]
    fn weights_have_the_names_of_pytorch_and_nothing_else_has() {
        for method in ["pfedbayes", "fedavg"] {
            let client = client(method);
            for modes in [1, 3] {
                let model = mixture(&client, modes);
                let bytes = model_bytes(&client, &model).unwrap();
                let file = TensorFile::parse(&bytes).unwrap();
                let mut names = file.names();
                names.retain(|name| !name.starts_with("posterior."));
                names.sort_unstable();
                let own = || client.network().layout().tensors().iter().map(|tensor| tensor.name.clone());
                let mut expected: Vec<String> = match modes {
                    1 => own().collect(),
                    _ => (0..modes)
                        .flat_map(|mode| own().map(move |name| format!("modes.{mode}.{name}")))
                        .collect(),
                };
                expected.sort();
                assert_eq!(names, expected, "{method}");
                assert!(file.has("posterior.strangeness.usual"));
                let posterior = if modes == 1 { "posterior.variance" } else { "posterior.modes.2.variance" };
                assert_eq!(file.has(posterior), method == "pfedbayes");
                assert_eq!(read_model(&client, &bytes).unwrap(), model, "{method}, {modes}");
            }
        }
    }

    /// The first files of 0.2: the first mode under plain names, others under `mode.M.`, strangeness beside them.
    #[test]
    fn files_of_the_first_layout_are_read() {
        for method in ["pfedbayes", "fedavg"] {
            let client = client(method);
            for modes in [1, 3] {
                let model = mixture(&client, modes);
                let (_, entry) = model_tensors(&client, &model);
                let mut tensors = strangeness_tensors(model.strangeness.as_ref());
                for (place, mode) in model.modes.iter().enumerate() {
                    let mut own = parameter_tensors(client.network().layout(), mode.parameters.values());
                    own.extend(posterior_tensors(&mode.parameters).0);
                    tensors.extend(own.into_iter().map(|tensor| tensor.prefixed(&mode_prefix(place))));
                }
                let entry = serde_json::to_value(entry).unwrap();
                let bytes = tensor_bytes(&tensors, Some(&entry)).unwrap();
                assert_eq!(read_model(&client, &bytes).unwrap(), model, "{method}, {modes}");
            }
        }
    }

    #[test]
    fn a_posterior_that_its_metadata_does_not_describe_is_refused() {
        let client = client("pfedbayes");
        assert!(changed(&client, |_| {}).is_ok());
        for change in [
            (|entry| entry["predictive"]["draws"] = 0.into()) as fn(&mut serde_json::Value),
            |entry| entry["predictive"]["draws"] = (1_u64 << 40).into(),
            |entry| entry["predictive"] = serde_json::Value::Null,
        ] {
            let error = changed(&client, change).unwrap_err();
            assert!(matches!(error, ModelFileError::Draws { .. }), "{error}");
        }
        for (key, value) in [("temperature", 0.0), ("mixture_temperature", -1.0)] {
            let model = PersonalModel::single(1, client.initial()[0].clone(), vec![], 30);
            let (tensors, entry) = model_tensors(&client, &model);
            let mut entry = serde_json::to_value(entry).unwrap();
            entry[key] = value.into();
            let error = read_model(&client, &tensor_bytes(&tensors, Some(&entry)).unwrap()).unwrap_err();
            assert!(matches!(error, ModelFileError::Temperature { .. }), "{error}");
        }
        for classes in [serde_json::json!([]), serde_json::json!([2, 1]), serde_json::json!([0, 3])] {
            let model = PersonalModel::single(1, client.initial()[0].clone(), vec![], 30);
            let (tensors, entry) = model_tensors(&client, &model);
            let mut entry = serde_json::to_value(entry).unwrap();
            entry["own_classes"] = classes;
            let error = read_model(&client, &tensor_bytes(&tensors, Some(&entry)).unwrap()).unwrap_err();
            assert!(matches!(error, ModelFileError::OwnClasses { .. }), "{error}");
        }
        let error = changed(&client, |entry| entry["posterior"] = serde_json::Value::Null).unwrap_err();
        assert!(error.to_string().contains("does not describe the posterior"), "{error}");
    }
}
