//! What a node does: a download, what the client keeps and its data become an upload and what it keeps next; it
//! personalises a model, predicts, and may join late.
//!
//! A [`Client`] holds what all clients of a federation have in common. It knows of no simulation, no other client and no
//! files: who calls it passes the client's own state and data in, and sends and stores what comes out.

mod data;
mod error;
mod model;
mod phases;
mod posterior;
mod predict;
mod predictions;
mod summary;
mod train;

use std::sync::Arc;

use fedsi_bayes::{RuleNameError, Rules};
use fedsi_data::{Samples, Scaling, Targets, Task};
use fedsi_nn::Loss;
use fedsi_random::{Purpose, SERVER, Streams};
use rand_distr::{Distribution as _, StandardNormal};

pub use data::{LocalData, SET_ASIDE_SHARE};
pub use error::ClientError;
pub use model::PersonalModel;
pub use predictions::{OtherTask, Predictions};
pub use summary::{LaplaceSummary, PosteriorKind, PosteriorSummary};
pub use train::{Trained, Validation, WorkSeconds};

use crate::config::{Config, ConfigError, TrainingConfig};
use crate::methods::{MeanField, Phase, Procedure, Uncertainty};
use crate::network::{ClientNetwork, NativeNetwork};
use crate::parameters::{Gaussian, HeadSamples, Parameters, SharedParameters};
use crate::registry::Checked;
use crate::wire::{Download, PriorScores};
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
    task: Task,
    target_scaling: Option<Scaling>,
    loss: Loss,
    /// All parameters before the first round.
    initial: Parameters,
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
        config: &Config,
        procedure: Procedure,
        network: Arc<dyn ClientNetwork>,
        task: Task,
        target_scaling: Option<Scaling>,
        rules: &Rules,
    ) -> Result<Self, RuleNameError> {
        let streams = Streams::new(config.seed);
        let initial = initialise(&*network, &procedure, streams);
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

    /// The network as a client that never took part would start it: the initial parameters, with this shared part in
    /// its place.
    ///
    /// # Errors
    /// A shared part of another kind or size.
    pub fn global_parameters(&self, shared: &SharedParameters) -> Result<Parameters, ClientError> {
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

    /// All parameters before the first round.
    #[must_use]
    pub const fn initial(&self) -> &Parameters {
        &self.initial
    }

    /// A client's samples, divided into what it trains on, holds out and sets aside.
    #[must_use]
    pub fn divide(&self, client: usize, samples: Samples, set_aside: bool) -> LocalData {
        LocalData::divide(samples, self.held_out_share, set_aside, client, self.streams)
    }

    /// A client's personal model, as it is evaluated: the newest shared part and what the client kept, tuned where the
    /// method tunes, with a posterior where it infers one.
    ///
    /// Cost: the method's epochs of tuning and one posterior.
    ///
    /// # Errors
    /// Messages or state that do not fit; training that diverged; a posterior that cannot be computed.
    pub fn personalise(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        self.tune(client, download, kept, data, &self.procedure.personalise)
    }

    /// The personal model of a client that joins after training, from its own data alone. `client` is the key of its
    /// random draws: a number that no other client has. `kept` is what it kept, if it ever took part.
    ///
    /// Cost and errors as [`Self::personalise`].
    ///
    /// # Errors
    /// As [`Self::personalise`].
    pub fn join(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        self.tune(client, download, kept, data, &self.join_phases)
    }

    fn tune(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
        phases: &[Phase],
    ) -> Result<PersonalModel, ClientError> {
        self.check_data(data)?;
        let Start { parameters, server } = self.start(&download.shared, kept)?;
        let mut rng = self.streams.stream(Purpose::Tuning, client as u64, download.round);
        let tuned = self.run_phases(parameters, server.as_ref(), phases, data, &mut rng)?;
        let parameters = match self.procedure.personal_posterior(download.prior_variance) {
            None => tuned.parameters,
            Some(spec) => {
                let mut rng = self.streams.stream(Purpose::PersonalSelection, client as u64, download.round);
                self.infer(&spec, tuned.parameters, server.as_ref(), data, &mut rng)?
            }
        };
        self.model(client, parameters, data)
    }

    /// How well posteriors of the prior variances that the server asks about predict what the client set aside: what the federation chooses a
    /// prior variance by.
    ///
    /// Cost: the method's epochs of tuning, and a posterior that all prior variances share most of.
    ///
    /// # Errors
    /// As [`Self::personalise`]; no data that was set aside, predictions that are not finite.
    pub fn score_prior_variances(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<PriorScores, ClientError> {
        self.check_data(data)?;
        let candidates = &download.prior_candidates;
        let samples = data.set_aside.count;
        if samples == 0 {
            return Err(ClientError::NothingSetAside);
        }
        let Start { parameters, server } = self.start(&download.shared, kept)?;
        let mut rng = self.streams.stream(Purpose::Tuning, client as u64, download.round);
        let phases = &self.procedure.personalise;
        let tuned = self.run_phases(parameters, server.as_ref(), phases, data, &mut rng)?.parameters;
        let mut rng = self.streams.stream(Purpose::PersonalSelection, client as u64, download.round);
        let mut losses = Vec::with_capacity(candidates.len());
        self.infer_candidates(candidates, &tuned, data, &mut rng, |parameters| {
            let model = self.model(client, parameters, data)?;
            let loss = self.predict(&model, &data.set_aside)?.scores().nll();
            losses.push(
                loss.filter(|loss| loss.is_finite()).ok_or(ClientError::PredictionsDiverged)?
                    * samples as f64,
            );
            Ok(())
        })?;
        Ok(PriorScores { round: download.round, client, samples, losses })
    }

    /// The shared part in its place among the initial parameters, and what the client kept in its own.
    fn start(&self, shared: &SharedParameters, kept: Option<&Parameters>) -> Result<Start, ClientError> {
        let layout = self.network.layout();
        let range = self.procedure.shared.range(layout);
        let mut parameters = self.initial.clone();
        let wants_gaussian =
            matches!(self.procedure.uncertainty, Uncertainty::Laplace(_) | Uncertainty::MeanField(_));
        let server = match shared {
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
                parameters.values_mut()[range].copy_from_slice(values);
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

    fn other_download(&self, shared: &SharedParameters) -> ClientError {
        let size = self.procedure.shared.range(self.network.layout()).len();
        let expected = match self.procedure.uncertainty {
            Uncertainty::Laplace(_) | Uncertainty::MeanField(_) => {
                format!("{size} means and {size} variances")
            }
            Uncertainty::None | Uncertainty::Samples(_) => format!("{size} values"),
        };
        ClientError::OtherDownload(crate::parameters::KindError { expected, found: shared.describe() })
    }

    /// A client's model of these parameters. A head that was never sampled is drawn from its prior.
    fn model(
        &self,
        client: usize,
        mut parameters: Parameters,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        if let (Parameters::Samples(HeadSamples { samples, .. }), Uncertainty::Samples(prior)) =
            (&mut parameters, &self.procedure.uncertainty)
            && samples.is_empty()
        {
            let mut rng = self.streams.stream(Purpose::PriorDraws, client as u64, 0);
            let deviation = prior.prior_variance.sqrt();
            let draw = |_| {
                let draw: f64 = StandardNormal.sample(&mut rng);
                (deviation * draw) as f32
            };
            samples.extend((0..prior.count * self.network.layout().head().len()).map(draw));
        }
        let observation_noise = self.observation_noise(parameters.values(), data)?;
        let draws = match &self.procedure.uncertainty {
            Uncertainty::Laplace(laplace) => laplace.draws,
            Uncertainty::MeanField(mean_field) => mean_field.draws,
            Uncertainty::Samples(samples) => samples.count,
            Uncertainty::None => 1,
        };
        Ok(PersonalModel { client, parameters, observation_noise, draws })
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

/// The parameters before the first round: as the layers start them, or around 0 with a variance each where the method
/// trains distributions.
fn initialise(network: &dyn ClientNetwork, procedure: &Procedure, streams: Streams) -> Parameters {
    let mut rng = streams.stream(Purpose::Initialisation, SERVER, 0);
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
