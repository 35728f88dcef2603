//! Networks as explicit layers over one flat vector of parameters.
//!
//! A [`Network`] is a checked list of layers in the manner of PyTorch's `Sequential`. Its parameters are one
//! slice, laid out as `torch.nn.utils.parameters_to_vector` would lay them out and named in a [`Layout`].
//! Everything that federated learning does with parameters (averaging, freezing, sending, selecting a
//! subnetwork) is then an operation on ranges of a slice.
//!
//! There is no automatic differentiation. Each layer implements its forward pass, its gradient in its
//! input, and the derivatives of its outputs in its own parameters. That is enough for training
//! ([`Trainer`]) and for the per-sample Jacobians ([`jacobian`]) that a Laplace posterior is made of, at a
//! fraction of a framework's overhead: a step allocates nothing.
//!
//! Besides the point estimate: [`VariationalTrainer`] fits an independent normal to every
//! parameter, [`Langevin`] draws parameters from their posterior.
//!
//! All of it is generic over [`Scalar`]: training runs in `f32`, posteriors in `f64`.
//!
//! ```
//! use fedsi_nn::{LayerSpec, Loss, Network, OptimizerSpec, Targets, Trainer};
//!
//! let network = Network::new(&[2], &[LayerSpec::Linear(8), LayerSpec::Tanh, LayerSpec::Linear(2)])?;
//! let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
//! let mut parameters: Vec<f32> = network.initialise(&mut rng);
//!
//! let inputs = [0., 0., 0., 1., 1., 0., 1., 1.];
//! let labels = Targets::Classes(&[0, 1, 1, 0]);
//! let adam = OptimizerSpec::adam(0.05);
//! let mut trainer = Trainer::new(&network, network.all_layers(), Loss::CrossEntropy, adam, 4);
//! let first = trainer.step(&network, &mut parameters, &inputs, labels, &[0, 1, 2, 3]);
//! for _ in 0..200 {
//!     trainer.step(&network, &mut parameters, &inputs, labels, &[0, 1, 2, 3]);
//! }
//! let last = trainer.step(&network, &mut parameters, &inputs, labels, &[0, 1, 2, 3]);
//! assert!(last < 0.05 * first);
//! # Ok::<(), fedsi_nn::NetworkError>(())
//! ```

mod cpu;
mod ensemble;
mod error;
mod gemm;
mod initialise;
pub mod jacobian;
mod langevin;
mod layers;
mod layout;
mod loss;
mod network;
mod noise;
mod optim;
mod scalar;
mod spec;
mod tape;
mod train;
mod variational;

pub use cpu::{cpu_kind, same_bits};
pub use error::NetworkError;
pub use langevin::{Langevin, LangevinSpec};
pub use layout::{LayerSet, Layout, Tensor};
pub use loss::{Loss, Targets, softmax};
pub use network::Network;
pub use noise::uniform::WeightNoise;
pub use optim::{Optimizer, OptimizerSpec};
pub use scalar::{Scalar, vectorised};
pub use spec::{ConvSpec, LayerSpec, PoolSpec};
pub use tape::{GradientSink, LayerRows, ParameterGradient, RowSink, Tape};
pub use train::Trainer;
pub use variational::{MeanField, VariationalTrainer};
