//! Outputs and features of many rows.

use std::sync::Arc;

use super::CudaNetwork;
use crate::CudaError;
use crate::arena::{Arena, ArenaPlan, Arenas, Place};
use crate::dispatcher::ClientWork;
use crate::forward::{self, ForwardJob, ForwardKind};
use crate::launch::LoadedKernel;
use crate::memory::bytes_of;

/// Most bytes of inputs, and of outputs, that are copied at a time.
const CHUNK_BYTES: usize = 64 << 20;

/// What forward kernels are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ForwardKey {
    /// The network's outputs.
    Outputs,
    /// The outputs of its body.
    Features,
    /// The outputs of so many heads side by side, from features.
    Heads(usize),
}

/// A body's features, on the GPU alone.
pub(super) struct DeviceFeatures {
    arena: Arena,
    place: Place,
}

impl DeviceFeatures {
    /// Where they begin.
    pub(super) const fn address(&self) -> u64 {
        self.arena.address(self.place)
    }

    /// Gives their memory back.
    pub(super) fn give_back(self, arenas: &Arenas) {
        arenas.give(self.arena);
    }
}

impl CudaNetwork {
    /// The features of rows that are on the GPU.
    pub(super) fn features_on_device(
        &self,
        values: &[f32],
        inputs: u64,
        rows: usize,
    ) -> Result<DeviceFeatures, CudaError> {
        let kernel = self.forward_kernel(ForwardKey::Features)?;
        let mut plan = ArenaPlan::default();
        let parameters = plan.place::<f32>(values.len());
        let on_host = plan.end();
        let features = plan.place::<f32>(rows * self.network.features());
        let workspace = plan.place::<f32>(kernel.workspace());
        let mut arena = self.arenas.take(&self.device, on_host, plan.end())?;
        arena.write(parameters, values);
        let job = ForwardJob {
            values: arena.address(parameters),
            inputs,
            outputs: arena.address(features),
            workspace: arena.address(workspace),
            rows: i32::try_from(rows).unwrap_or(i32::MAX),
            unused: 0,
        };
        let upload = Some(arena.transfer(parameters, parameters));
        let work = ClientWork {
            kernel,
            job: bytes_of(&[job]).to_vec(),
            parameters: Vec::new(),
            upload,
            download: None,
        };
        // SAFETY: the arena has room for what the kernel was told of, and this thread keeps it and the rows until the call
        // returns.
        unsafe { self.dispatcher.perform(work) }?;
        Ok(DeviceFeatures { arena, place: features })
    }

    /// The outputs under each of several heads: features once, then all heads side by side.
    pub(super) fn forward_heads(
        &self,
        values: &[f32],
        heads: &[f32],
        inputs: &[f32],
    ) -> Result<Vec<Vec<f32>>, CudaError> {
        let (count, width) = (heads.len() / self.network.layout().head().len(), self.network.outputs());
        if count == 0 {
            return Ok(Vec::new());
        }
        let features = self.forward_rows(ForwardKey::Features, values, inputs)?;
        let joined = self.network.join_heads(heads);
        let outputs = self.forward_rows(ForwardKey::Heads(count), &joined, &features)?;
        let of_head = |head: usize| {
            outputs
                .chunks_exact(count * width)
                .flat_map(|row| &row[head * width..][..width])
                .copied()
                .collect()
        };
        Ok((0..count).map(of_head).collect())
    }

    /// Outputs or features of rows on the host.
    pub(super) fn forward_rows(
        &self,
        key: ForwardKey,
        values: &[f32],
        inputs: &[f32],
    ) -> Result<Vec<f32>, CudaError> {
        let (width, height) = match key {
            ForwardKey::Outputs => (self.network.inputs(), self.network.outputs()),
            ForwardKey::Features => (self.network.inputs(), self.network.features()),
            ForwardKey::Heads(count) => (self.network.features(), count * self.network.outputs()),
        };
        let kernel = self.forward_kernel(key)?;
        let chunk = (CHUNK_BYTES / (size_of::<f32>() * width.max(height))).max(1);
        let mut outputs = Vec::with_capacity(inputs.len() / width * height);
        for rows in inputs.chunks(chunk * width) {
            outputs.extend(self.forward_chunk(&kernel, values, rows, (width, height))?);
        }
        Ok(outputs)
    }

    fn forward_chunk(
        &self,
        kernel: &Arc<LoadedKernel>,
        values: &[f32],
        inputs: &[f32],
        (width, height): (usize, usize),
    ) -> Result<Vec<f32>, CudaError> {
        let rows = inputs.len() / width;
        let mut plan = ArenaPlan::default();
        let parameters = plan.place::<f32>(values.len());
        let given = plan.place::<f32>(inputs.len());
        let found = plan.place::<f32>(rows * height);
        let on_host = plan.end();
        let workspace = plan.place::<f32>(kernel.workspace());
        let mut arena = self.arenas.take(&self.device, on_host, plan.end())?;
        arena.write(parameters, values);
        arena.write(given, inputs);
        let job = ForwardJob {
            values: arena.address(parameters),
            inputs: arena.address(given),
            outputs: arena.address(found),
            workspace: arena.address(workspace),
            rows: i32::try_from(rows).unwrap_or(i32::MAX),
            unused: 0,
        };
        let work = ClientWork {
            kernel: Arc::clone(kernel),
            job: bytes_of(&[job]).to_vec(),
            parameters: Vec::new(),
            upload: Some(arena.transfer(parameters, given)),
            download: Some(arena.transfer(found, found)),
        };
        // SAFETY: as above.
        let performed = unsafe { self.dispatcher.perform(work) };
        let mut outputs = vec![0.0; rows * height];
        if performed.is_ok() {
            arena.read(found, &mut outputs);
        }
        self.arenas.give(arena);
        performed.map(|()| outputs)
    }

    fn forward_kernel(&self, key: ForwardKey) -> Result<Arc<LoadedKernel>, CudaError> {
        let limits = self.device.limits();
        let generated = || match key {
            ForwardKey::Outputs => forward::kernel(&self.network, &limits, ForwardKind::Outputs),
            ForwardKey::Features => forward::kernel(&self.network, &limits, ForwardKind::Features),
            ForwardKey::Heads(count) => {
                let wide = self.head.under_heads(count).map_err(|error| {
                    CudaError::Unsupported(format!("predict with {count} heads at once: {error}"))
                })?;
                forward::kernel(&wide, &limits, ForwardKind::Outputs)
            }
        };
        self.forward_kernels.get(&self.device, key, || Ok(vec![generated()?]))
    }
}
