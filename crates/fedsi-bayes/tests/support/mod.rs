//! Networks, numbers and the naive dense posterior that several tests compare with.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use fedsi_bayes::{
    Explanation, Form, Laplace, Likelihood, OutputDistribution, Posterior, PosteriorError, PosteriorFamily,
    Prior, Problem,
};
use fedsi_nn::{ConvSpec, LayerSpec, Network, PoolSpec, Tape, jacobian, softmax};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// A network, parameters, data and a likelihood.
pub struct Case {
    pub name: &'static str,
    pub network: Network,
    pub parameters: Vec<f64>,
    pub inputs: Vec<f64>,
    pub likelihood: Likelihood,
}

/// `count` numbers in [-1, 1) from a seed.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = Streams::new(seed).stream(Purpose::Batches, 0, 0);
    (0..count).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect()
}

/// Largest difference relative to the largest expected value.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let scale = expected.iter().fold(0.0_f64, |top, value| top.max(value.abs()));
    let gap = found.iter().zip(expected).fold(0.0_f64, |top, (a, b)| top.max((a - b).abs()));
    if gap == 0.0 { 0.0 } else { gap / scale }
}

impl Case {
    pub fn new(
        name: &'static str,
        input: &[usize],
        layers: &[LayerSpec],
        likelihood: Likelihood,
        samples: usize,
    ) -> Self {
        let network = Network::new(input, layers).unwrap();
        let parameters = numbers(3, network.layout().len());
        let inputs = numbers(4, samples * network.inputs());
        Self { name, network, parameters, inputs, likelihood }
    }

    /// As this crate takes it.
    pub fn problem(&self) -> Problem<'_> {
        let network = Arc::new(self.network.clone());
        Problem::new(network, self.parameters.clone(), &self.inputs, self.likelihood.clone()).unwrap()
    }

    /// The posterior in a given form.
    pub fn fit(
        &self,
        selected: &[usize],
        prior: &[f64],
        tolerance: f64,
        form: Option<Form>,
    ) -> Result<Posterior, PosteriorError> {
        PosteriorFamily::new(&self.problem(), selected, prior, tolerance, form)?.posterior(1.0)
    }

    /// The posterior without correlations: of all parameters, from which `selected` are taken for comparison.
    pub fn independent(&self, prior: f64) -> Laplace {
        let problem = self.problem();
        let all = 0..self.parameters.len();
        let selection = problem.choose_independent(&Prior::isotropic(all, prior)).unwrap();
        problem.fit(&selection, 0.0).unwrap()
    }

    /// What a posterior over this network predicts.
    pub fn outputs(&self, posterior: &Posterior, inputs: &[f64]) -> OutputDistribution {
        let explanation = Explanation {
            size: posterior.selected().len(),
            candidates: self.parameters.len(),
            without_curvature: 0,
            zero_curvature: 0.0,
            layers: Vec::new(),
        };
        let network = Arc::new(self.network.clone());
        let (parameters, likelihood) = (self.parameters.clone(), self.likelihood.clone());
        Laplace::from_posterior(network, parameters, likelihood, posterior.clone(), explanation)
            .unwrap()
            .outputs(inputs)
            .unwrap()
    }

    pub fn samples(&self) -> usize {
        self.inputs.len() / self.network.inputs()
    }

    /// Every `step`-th parameter.
    pub fn every(&self, step: usize) -> Vec<usize> {
        (0..self.network.layout().len()).step_by(step).collect()
    }

    /// The Jacobian, `[samples, outputs, selected]`, and the outputs.
    pub fn jacobian(&self, inputs: &[f64], selected: &[usize]) -> (Vec<f64>, Vec<f64>) {
        let samples = inputs.len() / self.network.inputs();
        let mut tape = Tape::new(&self.network, samples.max(1));
        tape.inputs_mut(&self.network, samples).copy_from_slice(inputs);
        let outputs = tape.forward(&self.network, &self.parameters).to_vec();
        (jacobian::columns(&mut tape, &self.network, &self.parameters, selected), outputs)
    }

    /// Curvature of the likelihood for each sample, `[samples, outputs, outputs]`, from its definition.
    pub fn lambda(&self, outputs: &[f64]) -> Vec<f64> {
        let width = self.network.outputs();
        let mut lambda = vec![0.0; outputs.len() * width];
        for (lambda, outputs) in lambda.chunks_exact_mut(width * width).zip(outputs.chunks_exact(width)) {
            let mut p = outputs.to_vec();
            softmax(&mut p, width);
            for a in 0..width {
                for b in 0..width {
                    lambda[a * width + b] = match &self.likelihood {
                        Likelihood::Categorical => f64::from(a == b) * p[a] - p[a] * p[b],
                        Likelihood::Gaussian { noise } => f64::from(a == b) / (noise[a] * noise[b]),
                    };
                }
            }
        }
        lambda
    }

    /// The GGN, `[selected, selected]`.
    pub fn ggn(&self, selected: &[usize]) -> Vec<f64> {
        let (jacobian, outputs) = self.jacobian(&self.inputs, selected);
        let lambda = self.lambda(&outputs);
        let (size, width) = (selected.len(), self.network.outputs());
        let mut ggn = vec![0.0; size * size];
        for sample in 0..self.samples() {
            let own = &jacobian[sample * width * size..][..width * size];
            for a in 0..width {
                for b in 0..width {
                    let weight = lambda[(sample * width + a) * width + b];
                    for i in 0..size {
                        for j in 0..size {
                            ggn[i * size + j] += weight * own[a * size + i] * own[b * size + j];
                        }
                    }
                }
            }
        }
        ggn
    }

    /// Covariance and log determinant ratio of the posterior.
    pub fn posterior(&self, selected: &[usize], prior_variance: &[f64]) -> (Vec<f64>, f64) {
        let size = selected.len();
        let mut precision = self.ggn(selected);
        for (index, variance) in prior_variance.iter().enumerate() {
            precision[index * size + index] += 1.0 / variance;
        }
        let (covariance, logarithm) = inverse(&precision, size);
        (covariance, logarithm + prior_variance.iter().map(|variance| variance.ln()).sum::<f64>())
    }

    /// `J covariance J'` for each sample.
    pub fn output_covariance(&self, inputs: &[f64], selected: &[usize], covariance: &[f64]) -> Vec<f64> {
        let (jacobian, _) = self.jacobian(inputs, selected);
        let (size, width) = (selected.len(), self.network.outputs());
        let mut blocks = Vec::new();
        for own in jacobian.chunks_exact((width * size).max(1)) {
            for a in 0..width {
                for b in 0..width {
                    let mut sum = 0.0;
                    for i in 0..size {
                        let row = &covariance[i * size..][..size];
                        let dot: f64 = row.iter().zip(&own[b * size..]).map(|(c, j)| c * j).sum();
                        sum += own[a * size + i] * dot;
                    }
                    blocks.push(sum);
                }
            }
        }
        blocks
    }
}

/// Inverse and log determinant of a positive definite matrix, by Gauss-Jordan elimination.
pub fn inverse(matrix: &[f64], size: usize) -> (Vec<f64>, f64) {
    let mut left = matrix.to_vec();
    let mut right = vec![0.0; size * size];
    for index in 0..size {
        right[index * size + index] = 1.0;
    }
    let mut logarithm = 0.0;
    for pivot in 0..size {
        let value = left[pivot * size + pivot];
        logarithm += value.ln();
        for column in 0..size {
            left[pivot * size + column] /= value;
            right[pivot * size + column] /= value;
        }
        for row in (0..size).filter(|&row| row != pivot) {
            let factor = left[row * size + pivot];
            for column in 0..size {
                left[row * size + column] -= factor * left[pivot * size + column];
                right[row * size + column] -= factor * right[pivot * size + column];
            }
        }
    }
    (right, logarithm)
}

fn conv(out: usize, kernel: usize, stride: usize, padding: usize) -> LayerSpec {
    LayerSpec::Conv(ConvSpec { out, kernel, stride, padding })
}

/// One problem for every kind of layer and likelihood.
pub fn zoo() -> Vec<Case> {
    use LayerSpec::{Flatten, Linear, MaxPool, Relu, Silu, Tanh};
    use Likelihood::{Categorical, Gaussian};
    let pool = MaxPool(PoolSpec::square(2));
    let mut dead = Case::new("relu, dead units", &[6], &[Linear(8), Relu, Linear(3)], Categorical, 20);
    let bias = dead.network.layout().tensors()[1].range.clone();
    dead.parameters[bias.start..bias.start + 3].fill(-50.0);
    let mut blind = Case::new("relu, a dead input", &[5], &[Linear(6), Relu, Linear(3)], Categorical, 15);
    for x in blind.inputs.chunks_exact_mut(5) {
        x[2] = 0.0;
    }
    vec![
        Case::new("head alone", &[4], &[Linear(3)], Categorical, 9),
        Case::new("relu", &[6], &[Linear(5), Relu, Linear(3)], Categorical, 20),
        Case::new("deep tanh", &[4], &[Linear(6), Tanh, Linear(5), Tanh, Linear(4)], Categorical, 12),
        Case::new("ten classes", &[7], &[Linear(9), Relu, Linear(10)], Categorical, 40),
        Case::new("few samples", &[9], &[Linear(12), Silu, Linear(4)], Categorical, 3),
        Case::new("one output", &[4], &[Linear(6), Tanh, Linear(1)], Gaussian { noise: vec![0.3] }, 25),
        Case::new(
            "three noises",
            &[4],
            &[Linear(6), Relu, Linear(3)],
            Gaussian { noise: vec![0.3, 1.0, 2.5] },
            17,
        ),
        dead,
        blind,
        Case::new(
            "cnn",
            &[1, 8, 8],
            &[conv(3, 3, 1, 0), Relu, pool.clone(), Flatten, Linear(6), Relu, Linear(4)],
            Categorical,
            18,
        ),
        Case::new(
            "two convolutions",
            &[2, 9, 8],
            &[conv(3, 3, 2, 1), Tanh, conv(4, 2, 1, 0), Relu, Flatten, Linear(3)],
            Gaussian { noise: vec![0.5, 0.7, 0.9] },
            6,
        ),
    ]
}
