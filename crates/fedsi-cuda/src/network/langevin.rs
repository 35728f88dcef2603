//! Samples of the head.

use fedsi_fl::network::HeadSampling;
use fedsi_fl::parameters::HeadSamples;
use fedsi_random::ChaCha8Rng;
use rand::Rng as _;

use super::CudaNetwork;
use crate::CudaError;
use crate::arena::ArenaPlan;
use crate::dispatcher::ClientWork;
use crate::langevin::{self, LangevinJob, LangevinSettings};
use crate::memory::bytes_of;

impl CudaNetwork {
    /// A client's whole chain: the features of its body, which stands still, are computed once.
    pub(super) fn sample_chain(
        &self,
        sampling: &HeadSampling<'_>,
        head: &mut HeadSamples,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, CudaError> {
        let HeadSampling { data, loss, langevin: spec, steps, discard, thin } = *sampling;
        let settings = LangevinSettings::new(spec, loss, steps, discard, thin);
        if steps == 0 {
            return Ok(f64::NAN);
        }
        self.check(head.values.len(), &data)?;
        let noise_key = rng.next_u64();
        let samples = self.device.data().get(self.device.context(), &data)?;
        let rows = data.inputs.len() / self.network.inputs();
        let features = self.features_on_device(&head.values, samples.inputs.address(), rows)?;
        let limits = self.device.limits();
        let kernel = self.langevin_kernels.get(&self.device, loss.into(), || {
            Ok(vec![langevin::kernel(&self.network, &limits, loss.into())?])
        })?;

        let range = self.network.layout().head();
        let mut plan = ArenaPlan::default();
        let counter = plan.place::<i32>(1);
        let newest = plan.place::<f32>(range.len());
        let kept = plan.place::<f32>(settings.kept() * range.len());
        let last_loss = plan.place::<f32>(1);
        let on_host = plan.end();
        let workspace = plan.place::<f32>(kernel.workspace());
        let mut arena = self.arenas.take(&self.device, on_host, plan.end())?;
        arena.clear(counter);
        arena.write(newest, &head.values[range.clone()]);
        let job = LangevinJob {
            values: arena.address(newest),
            features: features.address(),
            targets: samples.targets.address(),
            samples: arena.address(kept),
            workspace: arena.address(workspace),
            counter: arena.address(counter),
            loss: arena.address(last_loss),
            noise_key,
            rows: i32::try_from(rows).unwrap_or(i32::MAX),
            unused: 0,
        };
        let work = ClientWork {
            kernel,
            job: bytes_of(&[job]).to_vec(),
            parameters: vec![bytes_of(&[settings]).to_vec()],
            upload: Some(arena.transfer(counter, newest)),
            download: Some(arena.transfer(newest, last_loss)),
        };
        // SAFETY: the arena has room for what the kernel was told of, and this thread keeps it, the features and the data until
        // the call returns.
        let performed = unsafe { self.dispatcher.perform(work) };
        let mut mean = [f32::NAN];
        if performed.is_ok() {
            arena.read(newest, &mut head.values[range.clone()]);
            let start = head.samples.len();
            head.samples.resize(start + settings.kept() * range.len(), 0.0);
            arena.read(kept, &mut head.samples[start..]);
            arena.read(last_loss, &mut mean);
        }
        self.arenas.give(arena);
        features.give_back(&self.arenas);
        performed.map(|()| f64::from(mean[0]))
    }
}
