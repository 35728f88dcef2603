//! The GPU of this process, tested before any run relies on it: does it compute what the CPU does?

use std::sync::{Arc, OnceLock};

use fedsi_fl::network::{Batches, ClientNetwork, NativeNetwork, PointTraining, TrainingData};
use fedsi_fl::parameters::Part;
use fedsi_nn::{LayerSpec, Loss, Network, OptimizerSpec, Targets};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

use crate::network::CudaNetwork;
use crate::{CudaError, Device};

const SAMPLES: usize = 12;
const INPUTS: usize = 8;

/// Largest difference after the steps: a hundred times what rounding gives.
const TOLERANCE: f32 = 1e-4;

/// The GPU of this process, opened and tested by whoever asks first: several runs share it.
///
/// # Errors
/// As [`Device::open`], and a GPU that does not compute what the CPU does.
pub fn shared_device() -> Result<Arc<Device>, CudaError> {
    static SHARED: OnceLock<Result<Arc<Device>, CudaError>> = OnceLock::new();
    let opened = || {
        let device = Device::open()?;
        self_test(&device)?;
        Ok(device)
    };
    // cudarc panics where a library lacks a function; a GPU that cannot be used is no reason to end.
    let guarded = || {
        std::panic::catch_unwind(opened).unwrap_or_else(|_| {
            let reason = "a library of CUDA lacks a function (see above)".to_owned();
            Err(CudaError::Call { call: "opening the GPU", reason })
        })
    };
    SHARED.get_or_init(guarded).clone()
}

/// Some steps of a small network on both. Takes milliseconds, once its kernel is compiled.
fn self_test(device: &Arc<Device>) -> Result<(), CudaError> {
    let failed = |reason: String| CudaError::Call { call: "a test of the GPU", reason };
    let layers = [LayerSpec::Linear(5), LayerSpec::Tanh, LayerSpec::Linear(3)];
    let network = Network::new(&[INPUTS], &layers).map_err(|error| failed(error.to_string()))?;
    let stream = |purpose| Streams::new(1).stream(purpose, 0, 0);
    let mut rng = stream(Purpose::Partition);
    let inputs: Vec<f32> = (0..SAMPLES * INPUTS).map(|_| rng.random_range(-1.0..1.0)).collect();
    let labels: Vec<u32> = (0..SAMPLES as u32).map(|row| row % 3).collect();
    let training = PointTraining {
        part: Part::All,
        optimizer: OptimizerSpec::Sgd { rate: 0.5, momentum: 0.0 },
        loss: Loss::CrossEntropy,
        data: TrainingData { id: None, inputs: &inputs, targets: Targets::Classes(&labels) },
        prior: None,
        weight_noise: 0.0,
        convolution_noise: 0.0,
    };
    let trained = |network: &dyn ClientNetwork| -> Result<Vec<f32>, CudaError> {
        let mut values = network.initialise(&mut stream(Purpose::Initialisation));
        let mut rng = stream(Purpose::Batches);
        let mut batches = Batches::shuffled(SAMPLES, 2, 5, &mut rng);
        network.train(&training, &mut values, &mut batches).map_err(|error| {
            error.source.downcast().map_or_else(|other| failed(other.to_string()), |error| *error)
        })?;
        Ok(values)
    };
    let expected = trained(&NativeNetwork::new(network.clone()))?;
    let found = trained(&CudaNetwork::new(device, network)?)?;
    if agree(&expected, &found) {
        return Ok(());
    }
    Err(failed(format!("{} trained a small network to other values than the CPU", device.name())))
}

/// Whether all values are within the tolerance; what is not a number is not.
fn agree(expected: &[f32], found: &[f32]) -> bool {
    expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| (a - b).abs() <= TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn a_gpu_that_computes_no_numbers_does_not_agree() {
        assert!(agree(&[1.0, -2.0], &[1.000_01, -2.0]));
        assert!(!agree(&[1.0, -2.0], &[1.001, -2.0]));
        assert!(!agree(&[1.0, -2.0], &[f32::NAN, -2.0]) && !agree(&[1.0], &[]));
    }
}
