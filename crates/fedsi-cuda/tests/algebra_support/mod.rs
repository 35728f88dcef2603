//! Networks with linear algebra of choice, and data for them.

use std::sync::Arc;

use fedsi_bayes::{BatchJacobian, EvaluationError, LinearAlgebra, LinearisedNetwork};
use fedsi_nn::{Layout, Loss, Network, OptimizerSpec, Targets, Trainer};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// A network whose linear algebra is another's.
#[derive(Debug)]
pub(crate) struct Backed {
    pub(crate) network: Network,
    pub(crate) algebra: Arc<dyn LinearAlgebra>,
}

impl LinearisedNetwork for Backed {
    fn layout(&self) -> &Layout {
        self.network.layout()
    }

    fn inputs(&self) -> usize {
        self.network.inputs()
    }

    fn outputs(&self) -> usize {
        self.network.outputs()
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        LinearisedNetwork::forward(&self.network, parameters, inputs)
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        self.network.jacobian(parameters, inputs, chosen)
    }

    fn as_layered(&self) -> Option<&Network> {
        Some(&self.network)
    }

    fn algebra(&self) -> &dyn LinearAlgebra {
        &*self.algebra
    }
}

/// Values in -1..1.
pub(crate) fn random(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = Streams::new(seed).stream(Purpose::Batches, 0, 0);
    (0..count).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect()
}

/// Parameters and inputs.
pub(crate) fn problem_data(network: &Network, samples: usize) -> (Vec<f64>, Vec<f64>) {
    (random(network.layout().len(), 5), random(samples * network.inputs(), 6))
}

/// The first samples of five classes, from the file of all training images and labels, plain.
pub(crate) fn mnist(folder: &str, count: usize) -> (Vec<f64>, Vec<u32>) {
    let read = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("MNIST's plain files");
    let (images, labels) = (read("train-images-idx3-ubyte"), read("train-labels-idx1-ubyte"));
    let (mut inputs, mut found) = (Vec::new(), Vec::new());
    for (image, &label) in images[16..].chunks_exact(784).zip(&labels[8..]) {
        if label < 5 && found.len() < count {
            inputs.extend(image.iter().map(|&byte| f64::from(byte) / 127.5 - 1.0));
            found.push(u32::from(label));
        }
    }
    assert_eq!(found.len(), count, "the files have too few samples");
    (inputs, found)
}

/// Parameters after some epochs, 60 for few samples and 8 for many.
pub(crate) fn trained(network: &Network, inputs: &[f64], labels: &[u32]) -> Vec<f64> {
    let mut rng = Streams::new(1).stream(Purpose::Initialisation, 0, 0);
    let mut parameters: Vec<f64> = network.initialise(&mut rng);
    let adam = OptimizerSpec::adam(1e-3);
    let mut trainer = Trainer::new(network, network.all_layers(), Loss::CrossEntropy, adam, 50);
    let rows: Vec<u32> = (0..labels.len() as u32).collect();
    for _ in 0..(36_000 / labels.len()).clamp(8, 60) {
        for batch in rows.chunks(50) {
            trainer.step(network, &mut parameters, inputs, Targets::Classes(labels), batch);
        }
    }
    parameters
}
