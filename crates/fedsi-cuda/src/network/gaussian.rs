//! Training of independent normals.

use std::sync::Arc;

use fedsi_fl::network::{Batches, GaussianTrained, GaussianTraining};
use fedsi_fl::parameters::{Gaussian, Part};

use super::CudaNetwork;
use super::point::padded;
use crate::CudaError;
use crate::arena::ArenaPlan;
use crate::dispatcher::ClientWork;
use crate::gaussian::{self, GaussianJob, GaussianRequest};
use crate::launch::LoadedKernel;
use crate::memory::bytes_of;
use crate::training::{LossKind, OptimizerKind, Settings};

/// What kernels of Gaussians are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GaussianKey {
    part: Part,
    loss: LossKind,
    optimizer: OptimizerKind,
    follows: bool,
    batch: usize,
}

impl CudaNetwork {
    /// All steps of a phase.
    pub(super) fn train_distribution(
        &self,
        training: &GaussianTraining<'_>,
        own: &mut Gaussian,
        batches: &mut Batches<'_>,
    ) -> Result<GaussianTrained, CudaError> {
        let GaussianTraining { part, optimizer, loss, data, weight, reference, inner_steps } = *training;
        let noise_key = batches.draw_key();
        self.check(own.mean.len(), &data)?;
        let batch = batches.size();
        let list = batches.list();
        let steps = list.steps();
        if steps == 0 || part == Part::Nothing {
            return Ok(GaussianTrained { loss: f64::NAN, reference: reference.cloned() });
        }
        let kernel = self.gaussian_kernel(GaussianKey {
            part,
            loss: loss.into(),
            optimizer: optimizer.into(),
            follows: reference.is_some(),
            batch,
        })?;
        let samples = self.device.data().get(self.device.context(), &data)?;
        let corrections = self.corrections.get(&self.device, optimizer, steps)?;
        let (size, stride) = (own.mean.len(), (batch + 1).next_multiple_of(4));

        let mut plan = ArenaPlan::default();
        let rows = plan.place::<i32>(steps * stride);
        let counter = plan.place::<i32>(1);
        let [mean, deviation, reference_mean, reference_deviation] =
            std::array::from_fn(|_| plan.place::<f32>(size));
        let losses = plan.place::<f32>(steps);
        let on_host = plan.end();
        let workspace = plan.place::<f32>(kernel.workspace());

        let mut arena = self.arenas.take(&self.device, on_host, plan.end())?;
        let held_to = reference.unwrap_or(own);
        arena.write(rows, &padded(&list, stride));
        arena.clear(counter);
        arena.write(mean, &own.mean);
        arena.write(deviation, &own.deviations());
        arena.write(reference_mean, &held_to.mean);
        arena.write(reference_deviation, &held_to.deviations());
        let address = |place| arena.address(place);
        let job = GaussianJob {
            mean: address(mean),
            deviation: address(deviation),
            reference_mean: address(reference_mean),
            reference_deviation: address(reference_deviation),
            inputs: samples.inputs.address(),
            targets: samples.targets.address(),
            batches: address(rows),
            workspace: address(workspace),
            counter: address(counter),
            losses: address(losses),
            noise_key,
            steps: i32::try_from(steps).unwrap_or(i32::MAX),
            batch_stride: i32::try_from(stride).unwrap_or(i32::MAX),
            weight: weight as f32,
            inner_steps: i32::try_from(inner_steps.max(1)).unwrap_or(i32::MAX),
        };
        let settings = Settings::new(optimizer, loss, 0.0, 0.0);
        let work = ClientWork {
            kernel,
            job: bytes_of(&[job]).to_vec(),
            parameters: vec![corrections.address().to_ne_bytes().to_vec(), bytes_of(&[settings]).to_vec()],
            upload: Some(arena.transfer(rows, reference_deviation)),
            download: Some(arena.transfer(mean, losses)),
        };
        // SAFETY: the arena has room for what the kernel was told of, and this thread keeps it and the data until the call
        // returns.
        let performed = unsafe { self.dispatcher.perform(work) };
        let read = |place| {
            let mut values = vec![0.0; size];
            arena.read(place, &mut values);
            values
        };
        let trained = performed.map(|()| {
            *own = Gaussian::from_deviations(read(mean), &read(deviation));
            let reference = reference
                .map(|_| Gaussian::from_deviations(read(reference_mean), &read(reference_deviation)));
            let mut found = vec![0.0; steps];
            arena.read(losses, &mut found);
            GaussianTrained { loss: list.mean_of_last_epoch(&found), reference }
        });
        self.arenas.give(arena);
        trained
    }

    fn gaussian_kernel(&self, key: GaussianKey) -> Result<Arc<LoadedKernel>, CudaError> {
        let GaussianKey { part, loss, optimizer, follows, batch } = key;
        let request = GaussianRequest { network: &self.network, part, loss, optimizer, follows, batch };
        let limits = self.device.limits();
        self.gaussian_kernels.get(&self.device, key, || Ok(vec![gaussian::kernel(&request, &limits)?]))
    }
}
