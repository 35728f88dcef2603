//! What clients' networks are computed on: the cores of this machine, or a GPU.

use std::sync::{Arc, Once};

use fedsi_cuda::{CudaError, CudaExecutor, CudaNetwork};
use fedsi_data::Federation;
use fedsi_fl::config::DeviceName;
use fedsi_fl::executor::Worker;
use fedsi_fl::{Checked, Client, ConfigError, Simulation};

use crate::RunError;

/// What a run is computed on.
#[derive(Clone, Debug)]
pub enum ComputeDevice {
    /// The cores of this machine.
    Cpu,
    /// A GPU.
    Cuda(Arc<fedsi_cuda::Device>),
}

impl ComputeDevice {
    /// What a config asks for. A GPU is opened once in a process, and tested: a few steps of training must give what the CPU
    /// gives. That costs some tenths of a second, and where its kernels were never compiled before a few seconds.
    ///
    /// # Errors
    /// A GPU that was asked for and is not there, or does not work. With `auto` that is a warning, and the CPU.
    pub fn open(wanted: DeviceName) -> Result<Self, RunError> {
        match wanted {
            DeviceName::Cpu => Ok(Self::Cpu),
            DeviceName::Cuda => Ok(Self::Cuda(fedsi_cuda::shared_device()?)),
            DeviceName::Auto => Ok(fedsi_cuda::shared_device().map_or_else(
                |error| {
                    // Once for all runs of a comparison.
                    static SAID: Once = Once::new();
                    SAID.call_once(|| tracing::warn!("device = auto: the CPU is used, since {error}"));
                    Self::Cpu
                },
                Self::Cuda,
            )),
        }
    }

    /// A federation before its first round, whose clients are computed on it.
    ///
    /// # Errors
    /// As [`Simulation::new`], and a GPU that cannot take the network.
    pub fn simulation(
        &self,
        config: &Checked,
        federation: Arc<dyn Federation>,
    ) -> Result<Simulation, RunError> {
        let Some(network) = self.network(config, &*federation)? else {
            return Ok(Simulation::new(config, federation)?);
        };
        let (data, threads) = (Arc::clone(&federation), config.threads);
        let workers = CudaExecutor::posteriors_at_once(threads);
        let own: Arc<CudaNetwork> = Arc::clone(&network);
        let simulation = Simulation::with_network(config, federation, network, workers, |client| {
            Ok(Box::new(CudaExecutor::new(Arc::clone(client), own, data, threads)?))
        });
        Ok(simulation?)
    }

    /// One client beside its data: what a site is.
    ///
    /// # Errors
    /// A network that does not fit the data, a selection rule that does not exist, a GPU that cannot take the network.
    pub fn worker(&self, config: &Checked, federation: Arc<dyn Federation>) -> Result<Worker, RunError> {
        let Some(network) = self.network(config, &*federation)? else {
            return Ok(Worker::of_config(config, federation)?);
        };
        let (task, scaling) = (federation.task(), federation.target_scaling().cloned());
        let client = Client::new(config, config.procedure(), network, task, scaling, config.rules());
        Ok(Worker::new(Arc::new(client.map_err(ConfigError::Rule)?), federation))
    }

    /// The config's network on the GPU; none where it is on the CPU.
    fn network(
        &self,
        config: &Checked,
        federation: &dyn Federation,
    ) -> Result<Option<Arc<CudaNetwork>>, RunError> {
        let Self::Cuda(device) = self else { return Ok(None) };
        let network = config.network(federation.input_shape(), federation.task())?;
        Ok(Some(Arc::new(CudaNetwork::new(device, network)?)))
    }

    /// `cpu` or `cuda`, as a summary says it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda(_) => "cuda",
        }
    }

    /// The kind of hardware, as far as it decides the last bits of results.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Cpu => fedsi_nn::cpu_kind().to_owned(),
            // Selections and averages are the CPU's.
            Self::Cuda(device) => format!("{} with {}", fedsi_nn::cpu_kind(), device.kind()),
        }
    }
}

impl From<CudaError> for RunError {
    fn from(error: CudaError) -> Self {
        Self::Device(error)
    }
}
