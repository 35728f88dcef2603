//! The phases of local training, one for each kind of objective.

use std::borrow::Cow;

use fedsi_nn::LangevinSpec;
use fedsi_random::ChaCha8Rng;

use super::data::training_data;
use super::{Client, ClientError, LocalData};
use crate::config::PriorScale;
use crate::methods::{Objective, Phase, Prior, Reference};
use crate::network::{Batches, GaussianTraining, HeadSampling, PointTraining, PriorPull};
use crate::parameters::{Gaussian, KindError, Parameters, Part};

/// What phases led to.
pub(super) struct PhasesResult {
    /// The client's parameters after the last phase.
    pub(super) parameters: Parameters,
    /// Its copy of the server's distribution, where that was trained as well: what it sends back.
    pub(super) reference: Option<Gaussian>,
    /// Mean loss a sample over the last epoch; none where nothing was trained.
    pub(super) loss: Option<f64>,
}

impl Client {
    /// Runs phases from these parameters, with the server's Gaussian where it holds one. The result depends on its arguments alone.
    pub(super) fn run_phases(
        &self,
        parameters: Parameters,
        server: Option<&Gaussian>,
        phases: &[Phase],
        data: &LocalData,
        rng: &mut ChaCha8Rng,
    ) -> Result<PhasesResult, ClientError> {
        let has_prior =
            |phase: &Phase| !matches!(phase.objective, Objective::Point { prior: Prior::Flat, .. });
        let noise = if server.is_some() || phases.iter().any(has_prior) {
            self.observation_noise(parameters.values(), data)?
        } else {
            Vec::new()
        };
        let squares: f64 = noise.iter().map(|noise| noise * noise).sum();
        let mut training = LocalTraining {
            client: self,
            data,
            server,
            noise_variance: if noise.is_empty() { 1.0 } else { squares / noise.len() as f64 },
            parameters,
            reference: None,
            new_samples: 0,
            rng,
        };
        let mut loss = None;
        for phase in phases.iter().filter(|phase| phase.epochs > 0 && phase.part != Part::Nothing) {
            loss = Some(training.phase(phase)?);
        }
        let LocalTraining { parameters, reference, .. } = training;
        Ok(PhasesResult { parameters, reference, loss })
    }
}

/// A client in the middle of its training.
struct LocalTraining<'a> {
    client: &'a Client,
    data: &'a LocalData,
    server: Option<&'a Gaussian>,
    /// The mean variance of regression noise, 1 for classes. The loss takes it to be 1, so a prior's weight is multiplied
    /// by it.
    noise_variance: f64,
    parameters: Parameters,
    /// The client's copy of the server's distribution, where it is trained as well.
    reference: Option<Gaussian>,
    /// Samples of the head that these phases have drawn.
    new_samples: usize,
    rng: &'a mut ChaCha8Rng,
}

impl LocalTraining<'_> {
    /// One phase. Returns the mean loss a sample over its last epoch.
    fn phase(&mut self, phase: &Phase) -> Result<f64, ClientError> {
        match phase.objective {
            Objective::Point { prior, weight_noise } => self.point(phase, prior, weight_noise),
            Objective::Variational { reference, weight } => self.variational(phase, reference, weight),
            Objective::Sample { discard, thin, keep, prior_variance } => {
                let langevin =
                    LangevinSpec { step: phase.rate, prior_variance, weight: 1.0 / self.noise_variance };
                self.sample(phase.epochs, (discard, thin), keep, langevin)
            }
            Objective::OverSamples => self.over_samples(phase),
        }
    }

    fn point(&mut self, phase: &Phase, prior: Prior, weight_noise: f64) -> Result<f64, ClientError> {
        let prior: Option<(Cow<'_, [f32]>, Vec<f32>)> = match prior {
            Prior::Flat => None,
            Prior::Server(scale) => {
                let server = self.server.ok_or(ClientError::NoServerGaussian)?;
                let (noise, count) = (self.noise_variance as f32, self.data.train.count as f32);
                let weight = |&variance: &f32| match scale {
                    PriorScale::Variance => noise / (count * variance),
                    PriorScale::Deviation => noise / (count * variance.sqrt()),
                };
                Some((Cow::Borrowed(&*server.mean), server.variance.iter().map(weight).collect()))
            }
            Prior::Isotropic(variance) => {
                let weight = (self.noise_variance / (self.data.train.count as f64 * variance)) as f32;
                let start = self.parameters.values();
                Some((Cow::Owned(start.to_vec()), self.prior_weights(phase.part, weight)))
            }
        };
        let (client, data) = (self.client, self.data);
        let training = PointTraining {
            prior: prior.as_ref().map(|(mean, weights)| PriorPull { mean, weights }),
            weight_noise,
            convolution_noise: weight_noise * client.training.convolution_noise,
            ..point_training(client, phase, data)
        };
        let mut batches = batches(client, phase, data, self.rng);
        Ok(client.network.train(&training, self.parameters.values_mut(), &mut batches)?)
    }

    /// This weight for the body's parameters of a part, none for those of the head: nothing is known of it before the data.
    fn prior_weights(&self, part: Part, weight: f32) -> Vec<f32> {
        let layout = self.client.network.layout();
        let (moves, body) = (part.range(layout), layout.body());
        let known = |index: &usize| moves.contains(index) && body.contains(index);
        (0..layout.len()).map(|index| if known(&index) { weight } else { 0.0 }).collect()
    }

    fn variational(&mut self, phase: &Phase, reference: Reference, weight: f64) -> Result<f64, ClientError> {
        let (client, data) = (self.client, self.data);
        let (held_to, inner_steps) = match reference {
            Reference::Start => (None, 1),
            Reference::Server { inner_steps } => {
                let server = || self.server.cloned().ok_or(ClientError::NoServerGaussian);
                (Some(self.reference.take().map_or_else(server, Ok)?), inner_steps)
            }
        };
        let Parameters::Gaussian(own) = &mut self.parameters else {
            return Err(self.other_kind("a Gaussian"));
        };
        let mut batches = batches(client, phase, data, self.rng);
        let training = GaussianTraining {
            part: phase.part,
            optimizer: client.training.optimizer(phase.rate),
            loss: client.loss,
            data: training_data(data),
            weight: weight * self.noise_variance / data.train.count as f64,
            reference: held_to.as_ref(),
            // The copy moves at least once, however few steps there are.
            inner_steps: inner_steps.min(batches.steps()).max(1),
        };
        let trained = client.network.train_gaussian(&training, own, &mut batches)?;
        self.reference = trained.reference;
        Ok(trained.loss)
    }

    fn sample(
        &mut self,
        steps: usize,
        (discard, thin): (usize, usize),
        keep: usize,
        langevin: LangevinSpec,
    ) -> Result<f64, ClientError> {
        let (client, data) = (self.client, self.data);
        let Parameters::Samples(head) = &mut self.parameters else {
            return Err(self.other_kind("samples of the head"));
        };
        let sampling =
            HeadSampling { data: training_data(data), loss: client.loss, langevin, steps, discard, thin };
        let loss = client.network.sample_head(&sampling, head, self.rng)?;
        self.new_samples = steps.saturating_sub(discard) / thin.max(1);
        let size = client.network.layout().head().len();
        let surplus = head.samples.len().saturating_sub(keep.max(self.new_samples) * size);
        head.samples.drain(..surplus);
        Ok(loss)
    }

    /// The body under all heads that were just drawn.
    fn over_samples(&mut self, phase: &Phase) -> Result<f64, ClientError> {
        let (client, data) = (self.client, self.data);
        let size = client.network.layout().head().len();
        let Parameters::Samples(head) = &mut self.parameters else {
            return Err(self.other_kind("samples of the head"));
        };
        let older = head.samples.len() - self.new_samples * size;
        let training = point_training(client, phase, data);
        let mut batches = batches(client, phase, data, self.rng);
        let heads = &head.samples[older..];
        Ok(client.network.train_body_under_heads(&training, &mut head.values, heads, &mut batches)?)
    }

    fn other_kind(&self, expected: &str) -> ClientError {
        let (expected, found) = (expected.to_owned(), self.parameters.kind().to_owned());
        ClientError::OtherParameters(KindError { expected, found })
    }
}

/// Training of point values in this phase, without prior and noise.
fn point_training<'a>(client: &Client, phase: &Phase, data: &'a LocalData) -> PointTraining<'a> {
    PointTraining {
        part: phase.part,
        optimizer: client.training.optimizer(phase.rate),
        loss: client.loss,
        data: training_data(data),
        prior: None,
        weight_noise: 0.0,
        convolution_noise: 0.0,
    }
}

/// The phase's epochs over the samples.
fn batches<'r>(client: &Client, phase: &Phase, data: &LocalData, rng: &'r mut ChaCha8Rng) -> Batches<'r> {
    let count = data.train.count;
    Batches::shuffled(count, phase.epochs, client.training.batch_size.max(1), rng)
}
