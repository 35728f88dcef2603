//! Linear algebra that a network brings is what its posteriors use, and gives what one thread gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fedsi_bayes::{
    BatchJacobian, EvaluationError, JacobianFactors, Likelihood, LinearAlgebra, LinearisedNetwork,
    NormalMatrix, PosteriorError, Predictive, Prior, Problem, Projector, SingleThread,
};
use fedsi_nn::{LayerSpec, Layout, Network};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// Multiplies Jacobians out, and counts what it was asked for.
#[derive(Debug, Default)]
struct Plain {
    normals: AtomicUsize,
    factorisations: AtomicUsize,
    eigen: AtomicUsize,
    projectors: AtomicUsize,
}

#[derive(Debug)]
struct PlainNormal(usize, Vec<f64>);

impl NormalMatrix for PlainNormal {
    fn add(&mut self, jacobian: &JacobianFactors<'_>) -> Result<(), PosteriorError> {
        let Self(size, sum) = self;
        for row in jacobian.multiplied_out().chunks_exact(*size) {
            for a in 0..*size {
                for b in a..*size {
                    sum[a * *size + b] += row[a] * row[b];
                }
            }
        }
        Ok(())
    }

    fn on_device(&self) -> bool {
        true
    }

    fn diagonal(&self) -> Result<Vec<f64>, PosteriorError> {
        Ok(self.1.iter().step_by(self.0 + 1).copied().collect())
    }

    fn inverse_factor(&self, scale: f64) -> Result<(f64, Vec<f64>), PosteriorError> {
        let mut matrix: Vec<f64> = self.1.iter().map(|value| scale * value).collect();
        matrix.iter_mut().step_by(self.0 + 1).for_each(|value| *value += 1.0);
        SingleThread.inverse_factor(matrix, self.0)
    }

    fn eigen(&self) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        SingleThread.eigen(&self.1, self.0)
    }

    fn into_lower(self: Box<Self>) -> Result<Vec<f64>, PosteriorError> {
        Ok(self.1)
    }
}

struct PlainProjector<'a>(&'a [f64], usize);

impl PlainProjector<'_> {
    fn blocks(&self, jacobian: &JacobianFactors<'_>, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let Self(factor, rank) = self;
        let whole = jacobian.multiplied_out();
        let rows: Vec<Vec<f64>> = whole
            .chunks_exact(jacobian.columns())
            .map(|row| {
                (0..*rank)
                    .map(|k| row.iter().enumerate().map(|(c, value)| value * factor[c * rank + k]).sum())
                    .collect()
            })
            .collect();
        let mut blocks = Vec::new();
        for pair in jacobian.offsets().windows(2) {
            for a in pair[0]..pair[1] {
                for b in pair[0]..pair[1] {
                    blocks.push((0..*rank).map(|k| weight(k) * rows[a][k] * rows[b][k]).sum());
                }
            }
        }
        blocks
    }
}

impl Projector for PlainProjector<'_> {
    fn add_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        sign: f64,
        blocks: &mut [f64],
    ) -> Result<(), PosteriorError> {
        for (block, value) in blocks.iter_mut().zip(self.blocks(jacobian, |_| 1.0)) {
            *block += sign * value;
        }
        Ok(())
    }

    fn weighted_outer_products(
        &mut self,
        jacobian: &JacobianFactors<'_>,
        weights: &[f64],
        count: usize,
    ) -> Result<Vec<f64>, PosteriorError> {
        Ok((0..count).flat_map(|which| self.blocks(jacobian, |k| weights[k * count + which])).collect())
    }
}

impl LinearAlgebra for Plain {
    fn normal_matrix(
        &self,
        columns: usize,
        _: usize,
        _: usize,
    ) -> Result<Box<dyn NormalMatrix>, PosteriorError> {
        self.normals.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(PlainNormal(columns, vec![0.0; columns * columns])))
    }

    fn inverse_factor(&self, matrix: Vec<f64>, size: usize) -> Result<(f64, Vec<f64>), PosteriorError> {
        self.factorisations.fetch_add(1, Ordering::Relaxed);
        SingleThread.inverse_factor(matrix, size)
    }

    fn eigen(&self, matrix: &[f64], size: usize) -> Result<(Vec<f64>, Vec<f64>), PosteriorError> {
        self.eigen.fetch_add(1, Ordering::Relaxed);
        SingleThread.eigen(matrix, size)
    }

    fn projector<'a>(
        &'a self,
        factor: &'a [f64],
        rank: usize,
        _: bool,
        _: usize,
    ) -> Result<Box<dyn Projector + 'a>, PosteriorError> {
        self.projectors.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(PlainProjector(factor, rank)))
    }
}

/// A network that brings its own.
#[derive(Debug)]
struct Backed(Network, Arc<Plain>);

impl LinearisedNetwork for Backed {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn outputs(&self) -> usize {
        self.0.outputs()
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        LinearisedNetwork::forward(&self.0, parameters, inputs)
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        self.0.jacobian(parameters, inputs, chosen)
    }

    fn as_layered(&self) -> Option<&Network> {
        Some(&self.0)
    }

    fn algebra(&self) -> &dyn LinearAlgebra {
        &*self.1
    }
}

#[test]
fn what_a_network_brings_is_used_and_gives_the_same() {
    use LayerSpec::{Conv, Flatten, Linear, Relu};
    let convolution = Conv(fedsi_nn::ConvSpec { out: 2, kernel: 3, stride: 1, padding: 0 });
    let networks = [
        Network::new(&[5], &[Linear(7), Relu, Linear(3)]).unwrap(),
        Network::new(&[1, 4, 4], &[convolution, Relu, Flatten, Linear(4), Relu, Linear(3)]).unwrap(),
    ];
    for network in networks {
        let mut rng = Streams::new(8).stream(Purpose::Batches, 0, 0);
        let mut uniform =
            |count: usize| -> Vec<f64> { (0..count).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect() };
        let (mut parameters, inputs) =
            (uniform(network.layout().len()), uniform(220 * LinearisedNetwork::inputs(&network)));
        // A unit that is never active, and an input that is always 0: parameters without curvature.
        let bias = network.layout().tensors()[1].range.start;
        parameters[bias] = -50.0;
        let width = LinearisedNetwork::inputs(&network);
        let inputs: Vec<f64> = inputs
            .iter()
            .enumerate()
            .map(|(place, &value)| if place % width == 1 { 0.0 } else { value })
            .collect();
        let (train, test) = inputs.split_at(200 * width);
        let plain = Arc::new(Plain::default());
        let backed: Arc<dyn LinearisedNetwork> = Arc::new(Backed(network.clone(), Arc::clone(&plain)));
        let single: Arc<dyn LinearisedNetwork> = Arc::new(network);
        let all = 0..parameters.len();
        let find = |network: &Arc<dyn LinearisedNetwork>, tolerance: f64| {
            let problem =
                Problem::new(Arc::clone(network), parameters.clone(), train, Likelihood::Categorical)
                    .unwrap();
            let selection = problem.choose_all(&Prior::isotropic(all.clone(), 0.4)).unwrap();
            let fit = problem.fit(&selection, tolerance).unwrap();
            let variances = fit.posterior().marginal_variances();
            let outputs = fit.outputs(test).unwrap().covariance;
            let mut rng = Streams::new(1).stream(Purpose::PriorDraws, 0, 0);
            let (scales, how) = ([0.1, 1.0, 5.0], Predictive::Differences);
            let searched = problem
                .probabilities_at_scales(&selection, tolerance, &scales, test, how, 0, &mut rng)
                .unwrap();
            [variances, outputs, searched.concat()]
        };
        for tolerance in [0.0, 0.3] {
            for (found, expected) in find(&backed, tolerance).iter().zip(find(&single, tolerance)) {
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-9, "{tolerance}: {found} instead of {expected}");
                }
            }
        }
        for (what, count) in [
            ("normal matrices", &plain.normals),
            ("factorisations", &plain.factorisations),
            ("eigendecompositions", &plain.eigen),
            ("projectors", &plain.projectors),
        ] {
            assert!(count.load(Ordering::Relaxed) > 0, "{what} were not asked for");
        }
    }
}
