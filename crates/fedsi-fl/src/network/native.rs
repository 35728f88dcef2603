//! A network of `fedsi-nn`'s layers.

use std::sync::{Arc, Mutex, PoisonError};

use fedsi_bayes::LinearisedNetwork;
use fedsi_nn::{Layout, MeanField, Network, Tape, WeightNoise};
use fedsi_random::ChaCha8Rng;

use super::trainers::{HeadsTrainer, TrainerCache, TrainerKey};
use super::{
    Batches, ClientNetwork, GaussianTrained, GaussianTraining, HeadSampling, NetworkFailure, PointTraining,
    PriorPull, TrainingError, UnsupportedTraining,
};
use crate::parameters::{Gaussian, HeadSamples, Part};

/// Rows of a forward pass without gradients.
const FORWARD_BATCH: usize = 128;

/// A network of `fedsi-nn`'s layers, with trainers that are reused between clients.
#[derive(Debug)]
pub struct NativeNetwork {
    network: Arc<Network>,
    /// The last linear layer alone.
    head: Network,
    /// Trainers that are not in use.
    trainers: Mutex<Vec<TrainerCache>>,
}

impl NativeNetwork {
    /// Clients train this network.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self { head: network.head(), network: Arc::new(network), trainers: Mutex::default() }
    }

    /// Its layers.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The body's outputs for every row.
    fn body_outputs(&self, values: &[f32], inputs: &[f32]) -> Vec<f32> {
        forward_in_batches(&self.network, values, inputs, Tape::forward_body)
    }

    /// Runs `work` with trainers that no other thread uses.
    fn with_trainers<R>(&self, work: impl FnOnce(&mut TrainerCache) -> R) -> R {
        // Locked for moments only, by code that does not panic: a poisoned lock still guards sound data.
        let lock = || self.trainers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trainers = lock().pop().unwrap_or_default();
        let result = work(&mut trainers);
        lock().push(trainers);
        result
    }
}

impl ClientNetwork for NativeNetwork {
    fn layout(&self) -> &Layout {
        self.network.layout()
    }

    fn input_size(&self) -> usize {
        self.network.inputs()
    }

    fn output_size(&self) -> usize {
        self.network.outputs()
    }

    fn initialise(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        self.network.initialise(rng)
    }

    fn outputs(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        Ok(forward_in_batches(&self.network, values, inputs, Tape::forward))
    }

    fn features(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        Ok(self.body_outputs(values, inputs))
    }

    fn outputs_of_heads(
        &self,
        values: &[f32],
        heads: &[f32],
        inputs: &[f32],
    ) -> Result<Vec<Vec<f32>>, NetworkFailure> {
        let features = self.body_outputs(values, inputs);
        let outputs = |head: &[f32]| forward_in_batches(&self.head, head, &features, Tape::forward);
        Ok(heads.chunks_exact(self.layout().head().len()).map(outputs).collect())
    }

    fn linearised(&self) -> Arc<dyn LinearisedNetwork> {
        Arc::clone(&self.network) as Arc<dyn LinearisedNetwork>
    }

    /// Training of the head alone computes the body's features once, and then costs no more than training a linear
    /// model.
    fn train(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, NetworkFailure> {
        let PointTraining { part, optimizer, loss, data, prior, weight_noise, convolution_noise } = *training;
        let head_alone = part == Part::Head;
        let features;
        let (network, inputs, range) = if head_alone {
            features = self.body_outputs(values, data.inputs);
            (&self.head, features.as_slice(), self.layout().head())
        } else {
            (&*self.network, data.inputs, 0..values.len())
        };
        let layers = if head_alone { network.all_layers() } else { part.layers(network) };
        self.with_trainers(|trainers| {
            let key = TrainerKey { part, optimizer, loss };
            let trainer = trainers.point(key, network, layers.clone(), batches.largest());
            let values = &mut values[range.clone()];
            if let Some(PriorPull { mean, weights }) = prior {
                trainer.set_prior(&mean[range.clone()], weights[range].iter().copied());
            }
            Ok(batches.run(|rows, rng| {
                if weight_noise > 0.0 {
                    let (deviation, convolution_deviation) = (weight_noise, convolution_noise);
                    let noise = WeightNoise { layers: &layers, deviation, convolution_deviation };
                    trainer.noisy_step(network, values, inputs, data.targets, rows, noise, rng)
                } else {
                    trainer.step(network, values, inputs, data.targets, rows)
                }
            }))
        })
    }

    fn train_gaussian(
        &self,
        training: &GaussianTraining<'_>,
        gaussian: &mut Gaussian,
        batches: &mut Batches<'_>,
    ) -> Result<GaussianTrained, TrainingError> {
        let GaussianTraining { part, optimizer, loss, data, weight, reference, inner_steps } = *training;
        let start = mean_field(gaussian);
        let moving_reference = reference.map(mean_field);
        self.with_trainers(|trainers| {
            let key = TrainerKey { part, optimizer, loss };
            let trainer = trainers.gaussian(key, &self.network, batches.largest());
            let follows = reference.map(|_| inner_steps);
            trainer.begin(&start, moving_reference.as_ref().unwrap_or(&start), weight, follows);
            let loss =
                batches.run(|rows, rng| trainer.step(&self.network, data.inputs, data.targets, rows, rng));
            *gaussian = diagonal(trainer.distribution());
            let reference = reference.map(|_| diagonal(trainer.reference()));
            Ok(GaussianTrained { loss, reference })
        })
    }

    /// The features are computed once for all steps: the body stands still.
    fn sample_head(
        &self,
        sampling: &HeadSampling<'_>,
        head: &mut HeadSamples,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, TrainingError> {
        let HeadSampling { data, loss, langevin, steps, discard, thin } = *sampling;
        let HeadSamples { values, samples } = head;
        let features = self.body_outputs(values, data.inputs);
        let newest = &mut values[self.layout().head()];
        self.with_trainers(|trainers| {
            let chain = trainers.chain(&self.head, loss, FORWARD_BATCH);
            let mut mean = f64::NAN;
            for step in 0..steps {
                mean = chain.step(&self.head, newest, &features, data.targets, langevin, rng);
                if step >= discard && (step - discard + 1).is_multiple_of(thin.max(1)) {
                    samples.extend_from_slice(newest);
                }
            }
            Ok(mean)
        })
    }

    fn train_body_under_heads(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        heads: &[f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, TrainingError> {
        let PointTraining { part, optimizer, loss, data, .. } = *training;
        let (body, head) = (self.layout().body(), self.layout().head());
        let count = heads.len() / head.len();
        let mut parameters = values[body.clone()].to_vec();
        parameters.extend(self.network.join_heads(heads));
        self.with_trainers(|trainers| {
            let key = TrainerKey { part, optimizer, loss };
            let found = trainers.under_heads(key, &self.network, count, batches.largest());
            let HeadsTrainer { network, trainer } =
                found.map_err(|_| UnsupportedTraining("train its body under so many heads"))?;
            let loss = batches
                .run(|rows, _| trainer.step(network, &mut parameters, data.inputs, data.targets, rows));
            values[body.clone()].copy_from_slice(&parameters[body]);
            Ok(loss)
        })
    }
}

fn mean_field(gaussian: &Gaussian) -> MeanField<f32> {
    MeanField { mean: gaussian.mean.clone(), deviation: gaussian.deviations() }
}

fn diagonal(distribution: MeanField<f32>) -> Gaussian {
    Gaussian::from_deviations(distribution.mean, &distribution.deviation)
}

fn forward_in_batches(
    network: &Network,
    values: &[f32],
    inputs: &[f32],
    pass: for<'t> fn(&'t mut Tape<f32>, &Network, &[f32]) -> &'t [f32],
) -> Vec<f32> {
    let width = network.inputs();
    let mut tape = Tape::new(network, FORWARD_BATCH.min(inputs.len() / width).max(1));
    let mut outputs = Vec::new();
    for rows in inputs.chunks(FORWARD_BATCH * width) {
        tape.inputs_mut(network, rows.len() / width).copy_from_slice(rows);
        outputs.extend_from_slice(pass(&mut tape, network, values));
    }
    outputs
}
