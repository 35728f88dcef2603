//! What a client needs of a network, so that a network of another library can stand in.
//!
//! A client asks for outputs, for training under its objective, and for derivatives of the outputs in chosen parameters.
//! [`NativeNetwork`] answers with the layers of `fedsi-nn`.

mod batches;
mod native;
mod trainers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fedsi_bayes::LinearisedNetwork;
use fedsi_nn::{LangevinSpec, Layout, Loss, OptimizerSpec, Targets};
use fedsi_random::ChaCha8Rng;
use thiserror::Error;

pub use batches::{BatchList, Batches};
pub use native::NativeNetwork;

use crate::parameters::{Gaussian, HeadSamples, Part};

/// A network that clients train and predict with. Parameters are flat, in the order of [`Self::layout`], and belong to
/// the client: a network holds none. The same arguments give the same bits, whatever else is at work.
pub trait ClientNetwork: fmt::Debug + Send + Sync {
    /// The names and places of all parameters, body before head.
    fn layout(&self) -> &Layout;

    /// Values of one input.
    fn input_size(&self) -> usize;

    /// Values of one output: a logit for each class, or a number for each target.
    fn output_size(&self) -> usize;

    /// Parameters before the first round.
    fn initialise(&self, rng: &mut ChaCha8Rng) -> Vec<f32>;

    /// The outputs for every row of `inputs`.
    ///
    /// # Errors
    /// What the network's library reports.
    fn outputs(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure>;

    /// What the head sees of every row of `inputs`: the outputs of the body. Outputs stand in for them where a network
    /// cannot tell.
    ///
    /// # Errors
    /// What the network's library reports.
    fn features(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        self.outputs(values, inputs)
    }

    /// The outputs for every row under each of several heads, given one after another. A network that can compute the
    /// features of the body once does so.
    ///
    /// # Errors
    /// What the network's library reports.
    fn outputs_of_heads(
        &self,
        values: &[f32],
        heads: &[f32],
        inputs: &[f32],
    ) -> Result<Vec<Vec<f32>>, NetworkFailure> {
        let range = self.layout().head();
        let mut values = values.to_vec();
        let outputs = |head: &[f32]| {
            values[range.clone()].copy_from_slice(head);
            self.outputs(&values, inputs)
        };
        heads.chunks_exact(self.layout().head().len()).map(outputs).collect()
    }

    /// The same network for posteriors: outputs and their derivatives in f64.
    fn linearised(&self) -> Arc<dyn LinearisedNetwork>;

    /// Trains point values, a step a batch, with a fresh optimiser. Returns the mean loss a sample over the last epoch.
    ///
    /// # Errors
    /// What the network's library reports.
    fn train(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, NetworkFailure>;

    /// Trains a Gaussian. Returns the same.
    ///
    /// # Errors
    /// A network that cannot; what its library reports.
    fn train_gaussian(
        &self,
        _training: &GaussianTraining<'_>,
        _gaussian: &mut Gaussian,
        _batches: &mut Batches<'_>,
    ) -> Result<GaussianTrained, TrainingError> {
        Err(UnsupportedTraining("train a distribution of its parameters").into())
    }

    /// Appends samples of the head from its posterior. Returns the mean loss a sample at the last one.
    ///
    /// # Errors
    /// A network that cannot; what its library reports.
    fn sample_head(
        &self,
        _sampling: &HeadSampling<'_>,
        _head: &mut HeadSamples,
        _rng: &mut ChaCha8Rng,
    ) -> Result<f64, TrainingError> {
        Err(UnsupportedTraining("draw samples of its head").into())
    }

    /// Trains the body on the loss averaged over several heads. Returns as [`Self::train`].
    ///
    /// # Errors
    /// A network that cannot, or not with so many heads; what its library reports.
    fn train_body_under_heads(
        &self,
        _training: &PointTraining<'_>,
        _values: &mut [f32],
        _heads: &[f32],
        _batches: &mut Batches<'_>,
    ) -> Result<f64, TrainingError> {
        Err(UnsupportedTraining("train its body under several heads").into())
    }
}

/// An error of the library that a network belongs to.
#[derive(Debug, Error)]
#[error("its network failed: {source}")]
pub struct NetworkFailure {
    /// The name of its kind, which is all that a site tells others: `KeyError`.
    pub kind: Option<String>,
    /// What the library says, which may be about the client's data.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A kind of training that a network does not offer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("this network cannot {0}")]
pub struct UnsupportedTraining(pub &'static str);

/// Why a network did not train as it was asked to.
#[derive(Debug, Error)]
pub enum TrainingError {
    /// It does not offer that.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedTraining),
    /// Its library failed.
    #[error(transparent)]
    Failed(#[from] NetworkFailure),
}

/// Names samples that somebody may keep a copy of, on a GPU for example: equal names are of equal samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataId {
    /// Who made the samples.
    source: u64,
    /// Which of them: a client, and what it sets aside.
    client: usize,
    division: Option<usize>,
}

impl DataId {
    /// Samples of which nothing is known but that they are no others.
    #[must_use]
    pub fn unused() -> Self {
        Self { source: new_source(), client: 0, division: None }
    }

    /// A client's samples without what it sets aside in this division, whenever its source makes them.
    pub(crate) const fn of_client(source: u64, client: usize, division: Option<usize>) -> Self {
        Self { source, client, division }
    }
}

/// A number for a source of samples that no other has in this process.
pub(crate) fn new_source() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Samples to train on.
#[derive(Clone, Copy, Debug)]
pub struct TrainingData<'a> {
    /// Their name, where they stay as they are under it: a network may keep a copy of its own.
    pub id: Option<DataId>,
    /// Samples x features.
    pub inputs: &'a [f32],
    /// Their targets.
    pub targets: Targets<'a, f32>,
}

/// Training of point values.
#[derive(Clone, Copy, Debug)]
pub struct PointTraining<'a> {
    /// What moves; the rest is frozen.
    pub part: Part,
    /// The optimiser, with its learning rate.
    pub optimizer: OptimizerSpec,
    /// What is minimised, averaged over a batch.
    pub loss: Loss,
    /// The samples.
    pub data: TrainingData<'a>,
    /// What pulls the parameters towards where they are expected to be.
    pub prior: Option<PriorPull<'a>>,
    /// Standard deviation of Gaussian noise on the parameters that move, drawn anew in every step; 0 for none.
    pub weight_noise: f64,
    /// The same in convolutions.
    pub convolution_noise: f64,
}

/// Adds `1/2 sum_r weight_r (theta_r - mean_r)^2` to the loss. Both have a value for each parameter of the network.
#[derive(Clone, Copy, Debug)]
pub struct PriorPull<'a> {
    /// Where parameters are expected.
    pub mean: &'a [f32],
    /// How firmly; 0 where nothing is known.
    pub weights: &'a [f32],
}

/// Training of a Gaussian q towards `E_q[mean loss] + weight KL(q || reference)`.
#[derive(Clone, Copy, Debug)]
pub struct GaussianTraining<'a> {
    /// What moves; the rest is drawn from a distribution that stays.
    pub part: Part,
    /// The optimiser, with its learning rate.
    pub optimizer: OptimizerSpec,
    /// What is minimised, averaged over a batch.
    pub loss: Loss,
    /// The samples.
    pub data: TrainingData<'a>,
    /// Weight of the divergence.
    pub weight: f64,
    /// A distribution that is trained as well: one step in `inner_steps` moves it down the same divergence. None: the start, which stays.
    pub reference: Option<&'a Gaussian>,
    /// Steps on the Gaussian for each on the reference, where that is trained; at least 1.
    pub inner_steps: usize,
}

/// What training of a Gaussian led to, besides the Gaussian itself.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianTrained {
    /// Mean loss a sample over the last epoch.
    pub loss: f64,
    /// The reference after training, where one was trained.
    pub reference: Option<Gaussian>,
}

/// Samples of the head by Langevin dynamics on all data.
#[derive(Clone, Copy, Debug)]
pub struct HeadSampling<'a> {
    /// The samples.
    pub data: TrainingData<'a>,
    /// What is summed over them.
    pub loss: Loss,
    /// Step size, prior variance and the weight of the loss.
    pub langevin: LangevinSpec,
    /// Steps in all.
    pub steps: usize,
    /// How many of them are discarded first.
    pub discard: usize,
    /// Of the others one in so many is kept, the last of each; at least 1.
    pub thin: usize,
}
