//! What a node does: a download, what the client keeps and its data become an upload and what it keeps next; it
//! personalises a model, predicts, and may join late.
//!
//! A [`Client`] holds what all clients of a federation have in common. It knows of no simulation, no other client and no
//! files: who calls it passes the client's own state and data in, and sends and stores what comes out.

mod calibrate;
mod chain;
mod data;
mod error;
mod model;
mod own_classes;
mod personalise;
mod phases;
mod posterior;
mod predict;
mod predictions;
mod strangeness;
mod summary;
mod temper;
mod test_scores;
mod train;

use std::ops::Range;
use std::sync::Arc;

use fedsi_bayes::{RuleNameError, Rules};
use fedsi_data::{Samples, Scaling, Targets, Task};
use fedsi_nn::Loss;
use fedsi_random::{Purpose, SERVER, Streams};
use rand_distr::{Distribution as _, StandardNormal};

pub use chain::ChainSummary;
pub use data::{Division, LocalData};
pub use error::ClientError;
pub use model::{PersonalMode, PersonalModel};
pub use own_classes::OwnClasses;
pub use predictions::{OtherTask, Predictions};
pub use summary::{LaplaceSummary, PosteriorKind, PosteriorSummary};
pub use test_scores::{Scored, TestScores};
pub use train::{Trained, Validation, WorkSeconds};

use crate::config::{ConfigError, Temperature, TrainingConfig};
use crate::methods::{MeanField, Phase, Procedure, Uncertainty};
use crate::network::{ClientNetwork, NativeNetwork};
use crate::parameters::{Gaussian, HeadSamples, Parameters, SharedParameters};
use crate::registry::Checked;
use crate::wire::{Download, SharedMode};
use posterior::Inference;

/// Smallest standard deviation of regression noise, in units of the standardised targets: a client that fits
/// its samples exactly is not certain of the next one.
const SMALLEST_NOISE: f64 = 1e-3;

/// What all clients of a federation have in common: the method, the network and the settings. The same arguments give
/// the same results on any machine of a kind, alone or in a simulation: every random draw is keyed by the federation's
/// seed, the client and the round.
#[derive(Debug)]
pub struct Client {
    network: Arc<dyn ClientNetwork>,
    procedure: Procedure,
    /// How posteriors are inferred, where the method infers any.
    inference: Option<Inference>,
    training: TrainingConfig,
    join_phases: Vec<Phase>,
    /// Standard deviation of regression noise; 0: estimated from the residuals.
    observation_noise: f64,
    held_out_share: f64,
    /// Whether held-out data is scored in every round, and not only when it is asked for.
    scores_rounds: bool,
    set_aside_share: f64,
    temperature: Temperature,
    /// Whether predictions are over the client's own classes alone.
    is_over_own_classes: bool,
    /// Whether the run hides clients, so that what is scored on a client's data stays with it.
    is_private: bool,
    task: Task,
    target_scaling: Option<Scaling>,
    loss: Loss,
    /// All parameters before the first round, of each mode.
    initial: Vec<Parameters>,
    streams: Streams,
}

/// What a client starts from.
struct Start {
    parameters: Parameters,
    /// The server's Gaussian over all parameters, of infinite variance where it knows nothing; none where it holds
    /// points.
    server: Option<Gaussian>,
}

impl Client {
    /// Clients of this method and network. `target_scaling` says how regression targets were standardised, and `rules`
    /// has the selection rule that the method names.
    ///
    /// # Errors
    /// A selection rule that is not among the rules.
    pub fn new(
        config: &Checked,
        procedure: Procedure,
        network: Arc<dyn ClientNetwork>,
        task: Task,
        target_scaling: Option<Scaling>,
        rules: &Rules,
    ) -> Result<Self, RuleNameError> {
        let streams = Streams::new(config.seed);
        let modes = 0..procedure.modes.count.max(1);
        let initial = modes.map(|mode| initialise(&*network, &procedure, streams, mode)).collect();
        let inference = procedure.laplace().map(|laplace| Inference::new(laplace, rules)).transpose()?;
        let loss = match task {
            Task::Classification { .. } => Loss::CrossEntropy,
            // Targets are standardised, and the noise changes no minimum; where there is a prior, its weight knows.
            Task::Regression { .. } => Loss::Gaussian { noise: 1.0 },
        };
        Ok(Self {
            join_phases: procedure.join_phases(config),
            inference,
            network,
            procedure,
            training: config.training.clone(),
            observation_noise: config.model.observation_noise,
            held_out_share: config.validation.fraction,
            scores_rounds: config.scores_rounds(),
            set_aside_share: config.calibration.fraction,
            temperature: config.calibration.temperature,
            is_over_own_classes: config.calibration.own_classes,
            is_private: config.privacy.is_on(),
            task,
            target_scaling,
            loss,
            initial,
            streams,
        })
    }

    /// Clients of a run, for inputs of this shape.
    ///
    /// # Errors
    /// A network that does not fit the data, a selection rule that does not exist.
    pub fn of_config(
        config: &Checked,
        input_shape: &[usize],
        task: Task,
        target_scaling: Option<Scaling>,
    ) -> Result<Self, ConfigError> {
        let network = Arc::new(NativeNetwork::new(config.network(input_shape, task)?));
        let procedure = config.procedure();
        Self::new(config, procedure, network, task, target_scaling, config.rules()).map_err(ConfigError::Rule)
    }

    /// A mode's network as a client that never took part would start it: the initial parameters, with this shared part
    /// in its place.
    ///
    /// # Errors
    /// A shared part of another kind or size, or of a mode that there is not.
    pub fn global_parameters(&self, shared: &SharedMode) -> Result<Parameters, ClientError> {
        Ok(self.start(shared, None)?.parameters)
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Arc<dyn ClientNetwork> {
        &self.network
    }

    /// What the method does.
    #[must_use]
    pub const fn procedure(&self) -> &Procedure {
        &self.procedure
    }

    /// What is predicted.
    #[must_use]
    pub const fn task(&self) -> Task {
        self.task
    }

    /// Whether the run hides clients: what is scored on a client's data then stays with it.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        self.is_private
    }

    /// All parameters before the first round, of each mode.
    #[must_use]
    pub fn initial(&self) -> &[Parameters] {
        &self.initial
    }

    /// A client's samples, divided into what it trains on, holds out and, with this division, sets aside.
    #[must_use]
    pub fn divide(&self, client: usize, samples: Samples, division: Division) -> LocalData {
        LocalData::divide(samples, self.held_out_share, division, client, self.streams)
    }

    /// How data is divided for a mode, where the download says that some is set aside.
    #[must_use]
    pub fn division(&self, mode: usize, download: &Download) -> Division {
        let (modes, share) = (self.procedure.modes, self.set_aside_share);
        let part = modes.part_set_aside(mode);
        if download.data_set_aside {
            Division::Part { part, share }
        } else if download.common_set_aside {
            Division::Common { part, parts: modes.count, share }
        } else {
            Division::Nothing
        }
    }

    /// The shared part in its place among the initial parameters, and what the client kept in its own.
    fn start(&self, shared: &SharedMode, kept: Option<&Parameters>) -> Result<Start, ClientError> {
        let SharedMode { mode, shared } = shared;
        let layout = self.network.layout();
        let range = self.received_range(shared, kept);
        let modes = self.initial.len();
        let initial = self.initial.get(*mode).ok_or(ClientError::UnknownMode { mode: *mode, modes })?;
        // Where all values are received, those that they would replace are not copied first.
        let mut parameters = match (initial, &**shared) {
            (Parameters::Point(_), SharedParameters::Point(values)) if range == (0..layout.len()) => {
                Parameters::Point(Vec::with_capacity(values.len()))
            }
            _ => initial.clone(),
        };
        let wants_gaussian =
            matches!(self.procedure.uncertainty, Uncertainty::Laplace(_) | Uncertainty::MeanField(_));
        let server = match &**shared {
            SharedParameters::Gaussian(gaussian) if wants_gaussian => {
                if gaussian.mean.len() != range.len() || gaussian.variance.len() != range.len() {
                    return Err(self.other_download(shared));
                }
                parameters.values_mut()[range.clone()].copy_from_slice(&gaussian.mean);
                if let Parameters::Gaussian(own) = &mut parameters {
                    own.variance[range.clone()].copy_from_slice(&gaussian.variance);
                }
                let mut variance = vec![f32::INFINITY; layout.len()];
                variance[range].copy_from_slice(&gaussian.variance);
                Some(Gaussian { mean: parameters.values().to_vec(), variance })
            }
            SharedParameters::Point(values) if !wants_gaussian && values.len() == range.len() => {
                match &mut parameters {
                    Parameters::Point(own) if own.is_empty() => own.extend_from_slice(values),
                    parameters => parameters.values_mut()[range].copy_from_slice(values),
                }
                None
            }
            SharedParameters::Gaussian(_) | SharedParameters::Point(_) => {
                return Err(self.other_download(shared));
            }
        };
        if let Some(kept) = kept {
            let own = self.procedure.kept.range(layout);
            parameters.put(own, kept).map_err(ClientError::OtherKept)?;
        }
        Ok(Start { parameters, server })
    }

    /// Where in the network lies what was received. After a warm start that is all of it or, for a client that has kept the
    /// rest, the method's shared part.
    fn received_range(&self, shared: &SharedParameters, kept: Option<&Parameters>) -> Range<usize> {
        let layout = self.network.layout();
        let (held, narrow) = (self.procedure.held().range(layout), self.procedure.shared.range(layout));
        if kept.is_some() && shared.values().len() == narrow.len() { narrow } else { held }
    }

    fn other_download(&self, shared: &SharedParameters) -> ClientError {
        let size = self.procedure.held().range(self.network.layout()).len();
        let expected = match self.procedure.uncertainty {
            Uncertainty::Laplace(_) | Uncertainty::MeanField(_) => {
                format!("{size} means and {size} variances")
            }
            Uncertainty::None | Uncertainty::Samples(_) => format!("{size} values"),
        };
        ClientError::OtherDownload(crate::parameters::KindError { expected, found: shared.describe() })
    }

    /// The classes that the client's predictions are over, where they are not over all.
    fn own_classes(&self, data: &LocalData, with_set_aside: bool) -> Option<OwnClasses> {
        if self.is_over_own_classes { OwnClasses::of(data, with_set_aside) } else { None }
    }

    /// The classes that a saved or sent model is over; none where they are no classes of the task.
    #[must_use]
    pub fn checked_own_classes(&self, classes: Vec<u32>) -> Option<OwnClasses> {
        match self.task {
            Task::Classification { classes: count } => OwnClasses::new(classes, count),
            Task::Regression { .. } => None,
        }
    }

    /// Whether these are samples of the task that the network predicts.
    fn check_data(&self, data: &LocalData) -> Result<(), ClientError> {
        if data.train.count == 0 {
            return Err(ClientError::NoSamples);
        }
        [&data.train, &data.held_out, &data.set_aside]
            .into_iter()
            .try_for_each(|samples| self.check_samples(samples))
    }

    fn check_samples(&self, samples: &Samples) -> Result<(), ClientError> {
        let (found, expected) = (samples.inputs.len(), samples.count * self.network.input_size());
        if found != expected {
            return Err(ClientError::Inputs { found, expected });
        }
        match (self.task, &samples.targets) {
            (Task::Classification { classes }, Targets::Classes(labels)) if labels.len() == samples.count => {
                match labels.iter().find(|&&label| label as usize >= classes) {
                    Some(&label) => Err(ClientError::Label { label, classes }),
                    None => Ok(()),
                }
            }
            (Task::Regression { outputs }, Targets::Values(values))
                if values.len() == samples.count * outputs =>
            {
                Ok(())
            }
            (task, targets) => Err(other_data(task, targets)),
        }
    }

    /// Standard deviation of the noise of each target: as the config says, or the root mean square of the
    /// residuals, on held-out data where there is some. Empty for classes.
    fn observation_noise(&self, values: &[f32], data: &LocalData) -> Result<Vec<f64>, ClientError> {
        let known = if data.held_out.count > 0 { &data.held_out } else { &data.train };
        let Targets::Values(targets) = &known.targets else { return Ok(Vec::new()) };
        let width = self.network.output_size();
        if self.observation_noise > 0.0 {
            return Ok(vec![self.observation_noise; width]);
        }
        let outputs = self.network.outputs(values, &known.inputs)?;
        let mut squares = vec![0.0; width];
        for (index, (&output, &target)) in outputs.iter().zip(targets).enumerate() {
            squares[index % width] += f64::from(output - target).powi(2);
        }
        let root = |square: f64| (square / known.count.max(1) as f64).sqrt().max(SMALLEST_NOISE);
        Ok(squares.into_iter().map(root).collect())
    }
}

/// The data are not of this task.
const fn other_data(task: Task, targets: &Targets) -> ClientError {
    ClientError::OtherData {
        found: match targets {
            Targets::Classes(_) => "classes",
            Targets::Values(_) => "values",
        },
        task: match task {
            Task::Classification { .. } => "classification",
            Task::Regression { .. } => "regression",
        },
    }
}

/// A mode's parameters before the first round: as the layers start them, or around 0 with a variance each where the method
/// trains distributions.
fn initialise(
    network: &dyn ClientNetwork,
    procedure: &Procedure,
    streams: Streams,
    mode: usize,
) -> Parameters {
    let mut rng = streams.stream(Purpose::Initialisation, SERVER, mode as u64);
    match &procedure.uncertainty {
        Uncertainty::MeanField(MeanField { initial_mean, initial_deviation, .. }) => {
            let draw = |_| {
                let draw: f64 = StandardNormal.sample(&mut rng);
                (initial_mean * draw) as f32
            };
            let mean = (0..network.layout().len()).map(draw).collect();
            Parameters::Gaussian(Gaussian::uniform(mean, initial_deviation.powi(2)))
        }
        Uncertainty::None | Uncertainty::Laplace(_) => Parameters::Point(network.initialise(&mut rng)),
        Uncertainty::Samples(_) => {
            Parameters::Samples(HeadSamples { values: network.initialise(&mut rng), samples: Vec::new() })
        }
    }
}
