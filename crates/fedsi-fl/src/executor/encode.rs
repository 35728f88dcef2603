//! Tasks and outcomes as bytes, for executors in other processes or on other machines.
//!
//! Messages within them (the download, the upload, what a client keeps) are bytes of their own in U8 tensors.

use std::sync::Arc;

use fedsi_data::Task as Prediction;
use fedsi_metrics::{BinSums, ReliabilityTable};
use serde::{Deserialize, Serialize};

use super::task::{Evaluated, EvaluationData, Outcome, Task, TaskResult, Work};
use crate::client::{
    Client, ClientError, PersonalMode, PersonalModel, PosteriorSummary, Predictions, Scored, TestScores,
    Trained, Validation, WorkSeconds,
};
use crate::parameters::Kept;
use crate::scores::Scores;
use crate::wire::{
    CalibrationScores, Download, NamedTensor, PosteriorHeader, TensorFile, Upload, WireError, decode,
    decode_parameters, encode, encode_parameters, mode_prefix, posterior_tensors, read_posterior,
    read_strangeness, strangeness_tensors,
};

const TASK: &str = "task";
const OUTCOME: &str = "outcome";

#[derive(Debug, Serialize, Deserialize)]
struct TaskContent {
    client: usize,
    work: WorkContent,
    /// The version of what was kept, where that lies at the client's own site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_at_site: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    needed_since: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WorkContent {
    Train,
    ScoreCandidates,
    Evaluate { held_out: bool, return_model: bool },
    ScoreTest,
}

#[derive(Debug, Serialize, Deserialize)]
struct OutcomeContent {
    client: usize,
    result: ResultContent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ResultContent {
    Failed {
        reason: String,
        diverged: bool,
    },
    LostState {
        expected: u64,
        found: Option<u64>,
    },
    Trained {
        posterior: Option<PosteriorSummary>,
        validation: Option<Validation>,
        seconds: WorkSeconds,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_at_site: Option<u64>,
    },
    CalibrationScores(CalibrationScores),
    Evaluated {
        posterior: Option<PosteriorSummary>,
        predictions: bool,
        model: Option<ModelContent>,
    },
    Scored(Option<ScoresContent>),
}

/// Of a bin: samples, right ones, and the sums of confidences, doubts and variances.
type BinContent = (usize, usize, f64, f64, f64);

#[derive(Debug, Serialize, Deserialize)]
struct ScoresContent {
    samples: usize,
    scores: Scores,
    reliability: Option<Vec<BinContent>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ModelContent {
    draws: usize,
    temperature: f64,
    mixture_temperature: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_classes: Option<Vec<u32>>,
    /// Of each mode.
    posteriors: Vec<PosteriorHeader>,
}

impl Task {
    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut tensors = vec![bytes_tensor("download", self.download.encode()?)];
        let kept_at_site = self.kept.as_ref().map_or(Ok(None), |kept| encode_kept(kept, &mut tensors))?;
        let work = match &self.work {
            Work::Train => WorkContent::Train,
            Work::ScoreCandidates => WorkContent::ScoreCandidates,
            Work::Evaluate { on, further_inputs, return_model } => {
                tensors.push(NamedTensor::f32("further_inputs", vec![further_inputs.len()], further_inputs));
                let held_out = *on == EvaluationData::HeldOut;
                WorkContent::Evaluate { held_out, return_model: *return_model }
            }
            Work::ScoreTest => WorkContent::ScoreTest,
        };
        let content =
            TaskContent { client: self.client, work, kept_at_site, needed_since: self.needed_since };
        encode(TASK, &content, &tensors)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (content, file) = decode::<TaskContent>(TASK, bytes)?;
        let TaskContent { client, work, kept_at_site, needed_since } = content;
        let kept = if kept_at_site.is_some() || file.has("kept") {
            Some(decode_kept(kept_at_site, &file)?)
        } else {
            None
        };
        let work = match work {
            WorkContent::Train => Work::Train,
            WorkContent::ScoreCandidates => Work::ScoreCandidates,
            WorkContent::Evaluate { held_out, return_model } => {
                let on = if held_out { EvaluationData::HeldOut } else { EvaluationData::Test };
                Work::Evaluate { on, further_inputs: file.f32("further_inputs")?, return_model }
            }
            WorkContent::ScoreTest => Work::ScoreTest,
        };
        let download = Arc::new(Download::decode(file.u8("download")?)?);
        Ok(Self { client, work, download, kept, needed_since })
    }
}

impl Outcome {
    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut tensors = Vec::new();
        let result = match &self.result {
            Err(ClientError::LostState { expected, found }) => {
                ResultContent::LostState { expected: *expected, found: *found }
            }
            Err(error) => {
                ResultContent::Failed { reason: error.to_string(), diverged: error.is_divergence() }
            }
            Ok(TaskResult::CalibrationScores(scores)) => ResultContent::CalibrationScores(scores.clone()),
            Ok(TaskResult::Trained(trained)) => {
                let Trained { upload, kept, posterior, validation, seconds } = &**trained;
                tensors.push(bytes_tensor("upload", upload.encode()?));
                let kept_at_site = encode_kept(kept, &mut tensors)?;
                let (posterior, validation, seconds) = (*posterior, *validation, *seconds);
                ResultContent::Trained { posterior, validation, seconds, kept_at_site }
            }
            Ok(TaskResult::Scored(Scored::Withheld)) => ResultContent::Scored(None),
            Ok(TaskResult::Scored(Scored::Scores(scores))) => {
                ResultContent::Scored(Some(scores_content(scores)))
            }
            Ok(TaskResult::Evaluated(evaluated)) => {
                let Evaluated { model, posterior, predictions, strangeness, further_probabilities } =
                    &**evaluated;
                tensors.push(f64_tensor("further_probabilities", further_probabilities));
                tensors.extend(strangeness.iter().map(|scores| f64_tensor("strangeness", scores)));
                tensors.extend(predictions.iter().flat_map(prediction_tensors));
                let content = model.as_ref().map(|model| model_content(model, &mut tensors));
                let predictions = predictions.is_some();
                ResultContent::Evaluated { posterior: *posterior, predictions, model: content }
            }
        };
        encode(OUTCOME, &OutcomeContent { client: self.client, result }, &tensors)
    }

    /// Reads what [`Self::encode`] wrote, of a client of this federation.
    ///
    /// # Errors
    /// Bytes that are not such a message, or do not fit the network.
    pub fn decode(bytes: &[u8], client: &Client) -> Result<Self, WireError> {
        let (content, file) = decode::<OutcomeContent>(OUTCOME, bytes)?;
        let owner = content.client;
        let result = match content.result {
            ResultContent::Failed { reason, diverged } => Err(ClientError::Remote { reason, diverged }),
            ResultContent::LostState { expected, found } => Err(ClientError::LostState { expected, found }),
            ResultContent::CalibrationScores(scores) => Ok(TaskResult::CalibrationScores(scores)),
            ResultContent::Scored(None) => Ok(TaskResult::Scored(Scored::Withheld)),
            ResultContent::Scored(Some(content)) => {
                Ok(TaskResult::Scored(Scored::Scores(Box::new(read_scores(content, client.task())?))))
            }
            ResultContent::Trained { posterior, validation, seconds, kept_at_site } => {
                let upload = Upload::decode(file.u8("upload")?)?;
                let kept = decode_kept(kept_at_site, &file)?;
                let sound = seconds.are_sound()
                    && validation.as_ref().is_none_or(Validation::is_sound)
                    && posterior.as_ref().is_none_or(PosteriorSummary::is_sound);
                if !sound {
                    return Err(WireError::Incomplete("figures of training that no client has"));
                }
                Ok(TaskResult::Trained(Box::new(Trained { upload, kept, posterior, validation, seconds })))
            }
            ResultContent::Evaluated { posterior, predictions, model } => {
                let predictions =
                    if predictions { Some(read_predictions(&file, client.task())?) } else { None };
                let further_probabilities = file.f64("further_probabilities")?;
                let strangeness = if file.has("strangeness") { Some(file.f64("strangeness")?) } else { None };
                let rows = predictions.as_ref().map_or(0, Predictions::len);
                if strangeness.as_ref().is_some_and(|scores| predictions.is_some() && scores.len() != rows) {
                    return Err(WireError::Incomplete(
                        "strangeness is not of as many samples as predictions",
                    ));
                }
                let model = model.map(|content| read_model(owner, content, &file, client)).transpose()?;
                let evaluated =
                    Evaluated { model, posterior, predictions, strangeness, further_probabilities };
                Ok(TaskResult::Evaluated(Box::new(evaluated)))
            }
        };
        Ok(Self { client: owner, result })
    }
}

/// What was kept: a tensor, or the version that is returned.
fn encode_kept(kept: &Kept, tensors: &mut Vec<NamedTensor>) -> Result<Option<u64>, WireError> {
    match kept {
        Kept::AtSite { round } => Ok(Some(*round)),
        Kept::Parameters(parameters) => {
            tensors.push(bytes_tensor("kept", encode_parameters(parameters)?));
            Ok(None)
        }
    }
}

fn decode_kept(at_site: Option<u64>, file: &TensorFile<'_>) -> Result<Kept, WireError> {
    match at_site {
        Some(_) if file.has("kept") => {
            Err(WireError::Incomplete("what was kept is at the client's site, and in the message as well"))
        }
        Some(round) => Ok(Kept::AtSite { round }),
        None => Ok(Kept::Parameters(decode_parameters(file.u8("kept")?)?)),
    }
}

fn scores_content(scores: &TestScores) -> ScoresContent {
    let TestScores { samples, scores, reliability } = scores;
    let sums = |bin: &BinSums| {
        let BinSums { count, correct, confidence, doubt, variance } = *bin;
        (count, correct, confidence, doubt, variance)
    };
    let reliability = reliability.as_ref().map(|table| table.sums().iter().map(sums).collect());
    ScoresContent { samples: *samples, scores: *scores, reliability }
}

fn read_scores(content: ScoresContent, task: Prediction) -> Result<TestScores, WireError> {
    let unsound = WireError::Incomplete("scores that no test samples have");
    let ScoresContent { samples, scores, reliability } = content;
    let sums = |(count, correct, confidence, doubt, variance): BinContent| BinSums {
        count,
        correct,
        confidence,
        doubt,
        variance,
    };
    let table = |bins: Vec<BinContent>| ReliabilityTable::from_sums(bins.into_iter().map(sums).collect());
    let Ok(reliability) = reliability.map(table).transpose() else { return Err(unsound) };
    let found = TestScores { samples, scores, reliability };
    let of_task = match (task, &found.scores) {
        (Prediction::Classification { .. }, Scores::Classification { .. }) => found.reliability.is_some(),
        (Prediction::Regression { .. }, Scores::Regression { .. }) => found.reliability.is_none(),
        _ => false,
    };
    if of_task && found.are_sound() { Ok(found) } else { Err(unsound) }
}

fn bytes_tensor(name: &str, bytes: Vec<u8>) -> NamedTensor {
    NamedTensor::u8(name, vec![bytes.len()], bytes)
}

fn f64_tensor(name: &str, values: &[f64]) -> NamedTensor {
    NamedTensor::f64(name, vec![values.len()], values)
}

fn prediction_tensors(predictions: &Predictions) -> Vec<NamedTensor> {
    match predictions {
        Predictions::Classes { probabilities, labels, .. } => vec![
            NamedTensor::f32("probabilities", vec![probabilities.len()], probabilities),
            NamedTensor::u32("labels", labels),
        ],
        Predictions::Values { mean, variance, targets, .. } => {
            vec![f64_tensor("mean", mean), f64_tensor("variance", variance), f64_tensor("targets", targets)]
        }
    }
}

fn read_predictions(file: &TensorFile<'_>, task: Prediction) -> Result<Predictions, WireError> {
    let short = WireError::Incomplete("predictions are not as many as samples");
    match task {
        Prediction::Classification { classes } => {
            let (probabilities, labels) = (file.f32("probabilities")?, file.u32("labels")?);
            if Some(probabilities.len()) != labels.len().checked_mul(classes) {
                return Err(short);
            }
            Ok(Predictions::Classes { classes, probabilities, labels })
        }
        Prediction::Regression { outputs } => {
            let (mean, variance, targets) = (file.f64("mean")?, file.f64("variance")?, file.f64("targets")?);
            if mean.len() != targets.len() || variance.len() != targets.len() {
                return Err(short);
            }
            Ok(Predictions::Values { outputs, mean, variance, targets })
        }
    }
}

/// What a header says of a model, whose tensors are added to others.
fn model_content(model: &PersonalModel, tensors: &mut Vec<NamedTensor>) -> ModelContent {
    let mut posteriors = Vec::with_capacity(model.modes.len());
    for (place, PersonalMode { parameters, observation_noise }) in model.modes.iter().enumerate() {
        let (mut own, header) = posterior_tensors(parameters);
        let values = parameters.values();
        own.push(NamedTensor::f32("values", vec![values.len()], values));
        own.push(f64_tensor("observation_noise", observation_noise));
        let prefix = mode_prefix(place);
        tensors.extend(own.into_iter().map(|tensor| tensor.prefixed(&prefix)));
        posteriors.push(header);
    }
    tensors.extend(strangeness_tensors(model.strangeness.as_ref()));
    let PersonalModel { draws, temperature, mixture_temperature, .. } = *model;
    let own_classes = model.own_classes.as_ref().map(|own| own.classes().to_vec());
    ModelContent { draws, temperature, mixture_temperature, own_classes, posteriors }
}

fn read_model(
    owner: usize,
    content: ModelContent,
    file: &TensorFile<'_>,
    client: &Client,
) -> Result<PersonalModel, WireError> {
    let ModelContent { draws, temperature, mixture_temperature, own_classes, posteriors } = content;
    if draws == 0 {
        return Err(WireError::Incomplete("a model's predictions average no draws"));
    }
    if ![temperature, mixture_temperature].iter().all(|one| one.is_finite() && *one > 0.0) {
        return Err(WireError::Incomplete("a model's temperature is not a finite number above 0"));
    }
    if posteriors.is_empty() {
        return Err(WireError::Incomplete("a model has no network"));
    }
    let modes = posteriors.into_iter().enumerate();
    let modes = modes.map(|(place, header)| read_mode(header, &file.within(&mode_prefix(place)), client));
    let modes = modes.collect::<Result<_, _>>()?;
    let strangeness = read_strangeness(file, client.network().input_size())?;
    let own_classes = own_classes
        .map(|own| {
            client
                .checked_own_classes(own)
                .ok_or(WireError::Incomplete("a model's own classes are no classes of the task"))
        })
        .transpose()?;
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
    header: PosteriorHeader,
    file: &TensorFile<'_>,
    client: &Client,
) -> Result<PersonalMode, WireError> {
    let observation_noise = file.f64("observation_noise")?;
    let likelihood = client.likelihood(observation_noise.clone());
    let (values, network) = (file.f32("values")?, client.network());
    if values.len() != network.layout().len() {
        return Err(WireError::Incomplete("a model has not as many values as the network has parameters"));
    }
    let noises = match client.task() {
        Prediction::Classification { .. } => 0,
        Prediction::Regression { outputs } => outputs,
    };
    if observation_noise.len() != noises {
        return Err(WireError::Incomplete("a model has not one observation noise for each target"));
    }
    let parameters = read_posterior(values, file, header, &**network, likelihood)?;
    Ok(PersonalMode { parameters, observation_noise })
}
