//! Clients' data on the GPU: copied there once, while there is room.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use fedsi_fl::network::{DataId, TrainingData};
use fedsi_nn::Targets;

use crate::CudaError;
use crate::memory::DeviceBuffer;

/// A client's samples in the GPU's memory.
pub(crate) struct DeviceData {
    pub(crate) inputs: DeviceBuffer,
    pub(crate) targets: DeviceBuffer,
}

impl DeviceData {
    fn copy(context: &Arc<CudaContext>, data: &TrainingData<'_>) -> Result<Self, CudaError> {
        Ok(Self {
            inputs: DeviceBuffer::of(context, data.inputs)?,
            targets: match data.targets {
                Targets::Classes(labels) => DeviceBuffer::of(context, labels)?,
                Targets::Values(values) => DeviceBuffer::of(context, values)?,
            },
        })
    }

    const fn bytes(&self) -> usize {
        self.inputs.bytes() + self.targets.bytes()
    }
}

/// The data that is there; what was not used for longest makes way.
pub(crate) struct ResidentData {
    most_bytes: usize,
    bytes: usize,
    clock: u64,
    entries: HashMap<DataId, Entry>,
}

struct Entry {
    data: Arc<DeviceData>,
    used: u64,
}

impl ResidentData {
    /// Up to so many bytes, besides what is in use at the moment.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: 0, clock: 0, entries: HashMap::new() }
    }

    /// A client's data: what is there, or a copy made now.
    ///
    /// # Errors
    /// No room for it, even without what is not in use.
    pub(crate) fn get(
        &mut self,
        context: &Arc<CudaContext>,
        data: &TrainingData<'_>,
    ) -> Result<Arc<DeviceData>, CudaError> {
        self.clock += 1;
        let Some(id) = data.id else { return DeviceData::copy(context, data).map(Arc::new) };
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = self.clock;
            return Ok(Arc::clone(&entry.data));
        }
        let expected = size_of_val(data.inputs);
        while self.bytes + expected > self.most_bytes && self.drop_oldest() {}
        let copy = loop {
            match DeviceData::copy(context, data) {
                Err(CudaError::OutOfMemory { .. }) if self.drop_oldest() => {}
                other => break Arc::new(other?),
            }
        };
        self.bytes += copy.bytes();
        self.entries.insert(id, Entry { data: Arc::clone(&copy), used: self.clock });
        Ok(copy)
    }

    /// Forgets what was not used for longest and is not in use. Whether there was any.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        let idle = self.entries.iter().filter(|(_, entry)| Arc::strong_count(&entry.data) == 1);
        let Some(id) = idle.min_by_key(|(_, entry)| entry.used).map(|(&id, _)| id) else { return false };
        if let Some(entry) = self.entries.remove(&id) {
            self.bytes -= entry.data.bytes();
        }
        true
    }
}
