//! Training of point values.

use std::sync::Arc;

use fedsi_fl::network::{BatchList, Batches, PointTraining, PriorPull, TrainingData};
use fedsi_fl::parameters::Part;
use fedsi_nn::{Loss, Network, OptimizerSpec, Targets};

use super::CudaNetwork;
use crate::CudaError;
use crate::arena::ArenaPlan;
use crate::dispatcher::ClientWork;
use crate::launch::LoadedKernel;
use crate::memory::bytes_of;
use crate::training::{self, Job, LossKind, OptimizerKind, Settings, TrainingRequest};

/// What training kernels are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PointKey {
    /// Whether it is the network of the head alone, on the body's features.
    head_alone: bool,
    /// How many heads there are side by side; 1 for the network itself.
    heads: usize,
    part: Part,
    loss: LossKind,
    optimizer: OptimizerKind,
    prior: bool,
    weight_noise: bool,
    batch: usize,
}

/// A client's phase, with its data already on the GPU.
pub(super) struct Phase<'a> {
    pub(super) network: &'a Network,
    pub(super) head_alone: bool,
    pub(super) heads: usize,
    pub(super) part: Part,
    pub(super) loss: Loss,
    pub(super) optimizer: OptimizerSpec,
    pub(super) prior: Option<PriorPull<'a>>,
    pub(super) weight_noise: f64,
    pub(super) convolution_noise: f64,
    pub(super) noise_key: u64,
    /// Address of the samples x inputs, aligned to 16 bytes.
    pub(super) inputs: u64,
    /// Address of the targets.
    pub(super) targets: u64,
    pub(super) batches: &'a BatchList,
    pub(super) batch: usize,
}

impl CudaNetwork {
    /// Trains all parameters, the body or the head.
    pub(super) fn train_points(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, CudaError> {
        let PointTraining { part, optimizer, loss, data, prior, weight_noise, convolution_noise } = *training;
        if part == Part::Nothing {
            return Ok(f64::NAN);
        }
        self.check(values.len(), &data)?;
        let noise_key = if weight_noise > 0.0 { batches.draw_key() } else { 0 };
        let batch = batches.size();
        let list = batches.list();
        let samples = self.device.data().get(self.device.context(), &data)?;
        let mut phase = Phase {
            network: &self.network,
            head_alone: false,
            heads: 1,
            part,
            loss,
            optimizer,
            prior,
            weight_noise,
            convolution_noise,
            noise_key,
            inputs: samples.inputs.address(),
            targets: samples.targets.address(),
            batches: &list,
            batch,
        };
        if part != Part::Head {
            return self.train_phase(&phase, values);
        }
        // The body stands still: its features are computed once, and stay on the GPU.
        let features =
            self.features_on_device(values, phase.inputs, data.inputs.len() / self.network.inputs())?;
        let range = self.network.layout().head();
        phase.network = &self.head;
        phase.head_alone = true;
        phase.part = Part::All;
        phase.inputs = features.address();
        phase.prior = prior.map(|PriorPull { mean, weights }| PriorPull {
            mean: &mean[range.clone()],
            weights: &weights[range.clone()],
        });
        let loss = self.train_phase(&phase, &mut values[range.clone()]);
        features.give_back(&self.arenas);
        loss
    }

    /// Trains the body under several heads at once.
    pub(super) fn train_under_heads(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        heads: &[f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, CudaError> {
        let PointTraining { part, optimizer, loss, data, .. } = *training;
        self.check(values.len(), &data)?;
        let (body, head) = (self.network.layout().body(), self.network.layout().head());
        let count = heads.len() / head.len();
        let wide = self.under_heads(count)?;
        let mut parameters = values[body.clone()].to_vec();
        parameters.extend(self.network.join_heads(heads));
        let batch = batches.size();
        let list = batches.list();
        let samples = self.device.data().get(self.device.context(), &data)?;
        let phase = Phase {
            network: &wide,
            head_alone: false,
            heads: count,
            part,
            loss,
            optimizer,
            prior: None,
            weight_noise: 0.0,
            convolution_noise: 0.0,
            noise_key: 0,
            inputs: samples.inputs.address(),
            targets: samples.targets.address(),
            batches: &list,
            batch,
        };
        let loss = self.train_phase(&phase, &mut parameters)?;
        values[body.clone()].copy_from_slice(&parameters[body]);
        Ok(loss)
    }

    /// Whether parameters and samples are the network's: kernels do not look.
    pub(super) fn check(&self, values: usize, data: &TrainingData<'_>) -> Result<(), CudaError> {
        let (inputs, outputs) = (self.network.inputs(), self.network.outputs());
        let rows = data.inputs.len() / inputs;
        let (targets, expected) = match data.targets {
            Targets::Classes(labels) => (labels.len(), rows),
            Targets::Values(values) => (values.len(), rows * outputs),
        };
        let lengths = [
            ("parameters", values, self.network.layout().len()),
            ("inputs", data.inputs.len(), rows * inputs),
            ("targets", targets, expected),
        ];
        for (what, found, expected) in lengths {
            if found != expected {
                return Err(CudaError::Length { what, found, expected });
            }
        }
        match data.targets {
            Targets::Classes(labels) => match labels.iter().find(|&&label| label as usize >= outputs) {
                Some(&label) => {
                    Err(CudaError::Length { what: "classes", found: label as usize + 1, expected: outputs })
                }
                None => Ok(()),
            },
            Targets::Values(_) => Ok(()),
        }
    }

    /// All steps of a phase. Returns the mean loss a sample over the last epoch.
    fn train_phase(&self, phase: &Phase<'_>, values: &mut [f32]) -> Result<f64, CudaError> {
        let steps = phase.batches.steps();
        if steps == 0 {
            return Ok(f64::NAN);
        }
        let kernel = self.point_kernel(phase)?;
        let corrections = self.corrections.get(&self.device, phase.optimizer, steps)?;
        let stride = (phase.batch + 1).next_multiple_of(4);

        // What goes to the GPU, then what goes there and comes back, then what only comes back, then what stays there.
        let mut plan = ArenaPlan::default();
        let batches = plan.place::<i32>(steps * stride);
        let counter = plan.place::<i32>(1);
        let prior = phase.prior.map(|_| (plan.place::<f32>(values.len()), plan.place::<f32>(values.len())));
        let trained = plan.place::<f32>(values.len());
        let losses = plan.place::<f32>(steps);
        let on_host = plan.end();
        let workspace = plan.place::<f32>(kernel.workspace());

        let mut arena = self.arenas.take(&self.device, on_host, plan.end())?;
        arena.write(batches, &padded(phase.batches, stride));
        arena.clear(counter);
        if let (Some(pull), Some((mean, weight))) = (phase.prior, prior) {
            arena.write(mean, pull.mean);
            arena.write(weight, pull.weights);
        }
        arena.write(trained, values);
        let address = |place| arena.address(place);
        let job = Job {
            values: address(trained),
            inputs: phase.inputs,
            targets: phase.targets,
            batches: address(batches),
            prior_mean: prior.map_or(0, |(mean, _)| address(mean)),
            prior_weight: prior.map_or(0, |(_, weight)| address(weight)),
            workspace: address(workspace),
            counter: address(counter),
            losses: address(losses),
            noise_key: phase.noise_key,
            steps: i32::try_from(steps).unwrap_or(i32::MAX),
            batch_stride: i32::try_from(stride).unwrap_or(i32::MAX),
        };
        let settings =
            Settings::new(phase.optimizer, phase.loss, phase.weight_noise, phase.convolution_noise);
        let parameters = vec![corrections.address().to_ne_bytes().to_vec(), bytes_of(&[settings]).to_vec()];
        let work = ClientWork {
            kernel,
            job: bytes_of(&[job]).to_vec(),
            parameters,
            upload: Some(arena.transfer(batches, trained)),
            download: Some(arena.transfer(trained, losses)),
        };
        // SAFETY: the arena has room for what the kernel was told of, and this thread keeps it and the data until the call
        // returns.
        let performed = unsafe { self.dispatcher.perform(work) };
        let mut found = vec![0.0; steps];
        if performed.is_ok() {
            arena.read(trained, values);
            arena.read(losses, &mut found);
        }
        self.arenas.give(arena);
        performed.map(|()| phase.batches.mean_of_last_epoch(&found))
    }

    fn point_kernel(&self, phase: &Phase<'_>) -> Result<Arc<LoadedKernel>, CudaError> {
        let request = TrainingRequest {
            network: phase.network,
            part: phase.part,
            loss: phase.loss.into(),
            optimizer: phase.optimizer.into(),
            prior: phase.prior.is_some(),
            weight_noise: phase.weight_noise > 0.0,
            heads: phase.heads,
            batch: phase.batch,
        };
        let key = PointKey {
            head_alone: phase.head_alone,
            heads: phase.heads,
            part: request.part,
            loss: request.loss,
            optimizer: request.optimizer,
            prior: request.prior,
            weight_noise: request.weight_noise,
            batch: request.batch,
        };
        let limits = self.device.limits();
        self.point_kernels.get(&self.device, key, || training::kernels(&request, &limits))
    }
}

/// Batches as kernels read them: rows, zeros, and in the end how many rows there are.
pub(super) fn padded(batches: &BatchList, stride: usize) -> Vec<i32> {
    let mut rows = vec![0; batches.steps() * stride];
    for (padded, batch) in rows.chunks_exact_mut(stride).zip(batches.iter()) {
        for (padded, &row) in padded.iter_mut().zip(batch) {
            *padded = row.cast_signed();
        }
        padded[stride - 1] = i32::try_from(batch.len()).unwrap_or(i32::MAX);
    }
    rows
}
