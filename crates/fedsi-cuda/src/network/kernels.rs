//! The kernels and tables that clients of one network share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use fedsi_nn::OptimizerSpec;

use crate::CudaError;
use crate::device::{Device, lock};
use crate::kernel::Kernel;
use crate::launch::LoadedKernel;
use crate::memory::DeviceBuffer;
use crate::training::Correction;

/// Loaded kernels by what they are for: a source is generated once for each.
pub(super) struct Kernels<K> {
    loaded: Mutex<HashMap<K, Arc<LoadedKernel>>>,
}

impl<K> Default for Kernels<K> {
    fn default() -> Self {
        Self { loaded: Mutex::default() }
    }
}

impl<K: Eq + Hash> Kernels<K> {
    /// The kernel for this; of those that `generate` offers the first that the GPU can run.
    pub(super) fn get(
        &self,
        device: &Device,
        key: K,
        generate: impl FnOnce() -> Result<Vec<Kernel>, CudaError>,
    ) -> Result<Arc<LoadedKernel>, CudaError> {
        if let Some(found) = lock(&self.loaded).get(&key) {
            return Ok(Arc::clone(found));
        }
        let mut refused = None;
        for kernel in generate()? {
            if let Some(error) = &refused {
                tracing::warn!("a slower kernel is used, since {error}");
            }
            match device.load(&kernel) {
                Ok(loaded) => {
                    lock(&self.loaded).insert(key, Arc::clone(&loaded));
                    return Ok(loaded);
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused
            .unwrap_or_else(|| CudaError::Unsupported("do this: there is no kernel for it".to_owned())))
    }
}

/// Adam's bias corrections on the GPU, for as many steps as anybody has asked for. Clients with fewer steps use the same table,
/// so that they can be in one launch.
#[derive(Default)]
pub(super) struct Corrections {
    tables: Mutex<Vec<Table>>,
}

struct Table {
    optimizer: OptimizerSpec,
    steps: usize,
    values: Arc<DeviceBuffer>,
}

/// Steps that a table has at least.
const FEWEST_STEPS: usize = 1024;

impl Corrections {
    /// The table of this optimiser, with at least so many steps.
    pub(super) fn get(
        &self,
        device: &Device,
        optimizer: OptimizerSpec,
        steps: usize,
    ) -> Result<Arc<DeviceBuffer>, CudaError> {
        let mut tables = lock(&self.tables);
        let own = |table: &&mut Table| table.optimizer == optimizer;
        if let Some(table) = tables.iter_mut().find(own)
            && table.steps >= steps
        {
            return Ok(Arc::clone(&table.values));
        }
        let steps = steps.max(FEWEST_STEPS).next_power_of_two();
        let values: Vec<f32> = Correction::of_steps(optimizer, steps)
            .into_iter()
            .flat_map(|correction| [correction.rate, correction.scale])
            .collect();
        let values = Arc::new(DeviceBuffer::of(device.context(), &values)?);
        tables.retain(|table| table.optimizer != optimizer);
        tables.push(Table { optimizer, steps, values: Arc::clone(&values) });
        Ok(values)
    }
}
