//! Networks that are not of fedsi-nn: only their outputs and a dense block of derivatives are known.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use fedsi_bayes::selection::rules::Layers;
use fedsi_bayes::{
    BatchJacobian, Curvature, EvaluationError, Form, Laplace, Likelihood, LinearisedNetwork, PosteriorError,
    PosteriorFamily, Predictive, Prior, Problem, Rules, ggn,
};
use fedsi_nn::{Layout, Network, Targets};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use support::{Case, inverse, numbers, relative_error, zoo};

fn rng() -> ChaCha8Rng {
    Streams::new(1).stream(Purpose::Selection, 0, 0)
}

/// A network of fedsi-nn whose layers are not shown.
#[derive(Debug)]
struct Opaque(Network);

impl LinearisedNetwork for Opaque {
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
        assert!(chosen.len() * inputs.len() / self.inputs() * self.outputs() <= 1 << 22, "a block too large");
        self.0.jacobian(parameters, inputs, chosen)
    }
}

fn opaque(case: &Case) -> Problem<'_> {
    let network = Arc::new(Opaque(case.network.clone()));
    Problem::new(network, case.parameters.clone(), &case.inputs, case.likelihood.clone()).unwrap()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], what: &str) {
    let error = relative_error(found, expected);
    assert!(error < 1e-9, "{what}: {error:e}");
}

#[test]
fn dense_derivatives_give_what_layers_give() {
    for case in zoo() {
        let (native, dense, name) = (case.problem(), opaque(&case), case.name);
        let all = 0..case.parameters.len();
        let (a, b) = (Curvature::diagonal(&native, all.clone()).unwrap(), Curvature::diagonal(&dense, all));
        let b = b.unwrap();
        assert_near(&b.ggn, &a.ggn, name);
        assert_near(&b.jacobian, &a.jacobian, name);
        for (square, other) in b.ggn.iter().zip(&a.ggn) {
            assert_eq!(*square == 0.0, *other == 0.0, "{name}: exactly no curvature");
        }
        let selected = case.every(2);
        let prior = vec![0.7; selected.len()];
        assert_near(&ggn(&dense, &selected).unwrap(), &ggn(&native, &selected).unwrap(), name);
        let test = numbers(12, 5 * case.network.inputs());
        let forms = [
            (0.0, None),
            (0.0, Some(Form::Samples)),
            (0.0, Some(Form::Parameters)),
            (1e-11, Some(Form::Projection)),
        ];
        for (tolerance, form) in forms {
            let fit = |problem: &Problem<'_>| {
                PosteriorFamily::new(problem, &selected, &prior, tolerance, form)
                    .unwrap()
                    .posterior(3.0)
                    .unwrap()
            };
            let (a, b) = (fit(&native), fit(&dense));
            assert_near(&b.covariance(), &a.covariance(), name);
            assert_near(&b.marginal_variances(), &a.marginal_variances(), name);
            let gap = (b.log_determinant_ratio() - a.log_determinant_ratio()).abs();
            assert!(gap < 1e-9 * (1.0 + a.log_determinant_ratio().abs()), "{name}: {gap:e}");
        }
        let prior = Prior::isotropic(case.network.layout().body(), 0.7);
        if prior.range().is_empty() {
            continue;
        }
        let size = prior.range().len() / 2;
        let predict = |problem: &Problem<'_>, rule: &str| {
            let rule = Rules::builtin().find(&rule.into()).unwrap();
            let selection = problem.choose(&prior, &*rule, size, &mut rng()).unwrap();
            let fitted = problem.fit(&selection, 0.0).unwrap();
            (selection.subnetwork().indices().to_vec(), fitted.outputs(&test).unwrap())
        };
        for rule in ["variance", "live", "predictive", "leverage", "random", "magnitude", "layers:0.bias"] {
            let ((chosen, a), (also, b)) = (predict(&native, rule), predict(&dense, rule));
            assert_eq!(chosen, also, "{name}, {rule}");
            assert_near(&b.mean, &a.mean, name);
            assert_near(&b.covariance, &a.covariance, name);
        }
        let independent = |problem: &Problem<'_>| {
            let selection = problem.choose_independent(&prior).unwrap();
            problem.fit(&selection, 0.0).unwrap().outputs(&test).unwrap().covariance
        };
        assert_near(&independent(&dense), &independent(&native), name);
    }
}

/// `h = tanh(W1 x + b1)`, `r = h + tanh(W2 h + b2)`, outputs `W3 r`: a residual connection, which fedsi-nn lacks.
#[derive(Debug)]
struct Residual {
    layout: Layout,
}

const IN: usize = 3;
const HIDDEN: usize = 4;
const OUT: usize = 3;

impl Residual {
    fn new() -> Self {
        let tensors = [
            ("first.weight", vec![HIDDEN, IN]),
            ("first.bias", vec![HIDDEN]),
            ("block.weight", vec![HIDDEN, HIDDEN]),
            ("block.bias", vec![HIDDEN]),
            ("out.weight", vec![OUT, HIDDEN]),
        ];
        Self { layout: Layout::of_tensors(tensors) }
    }

    fn tensor<'p>(&self, parameters: &'p [f64], index: usize) -> &'p [f64] {
        &parameters[self.layout.tensors()[index].range.clone()]
    }

    /// h, the block's own output, r, the outputs.
    fn run(&self, parameters: &[f64], x: &[f64]) -> [Vec<f64>; 4] {
        let affine = |weight: &[f64], x: &[f64]| -> Vec<f64> {
            weight.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
        };
        let tanh = |values: Vec<f64>, bias: &[f64]| -> Vec<f64> {
            values.iter().zip(bias).map(|(value, bias)| (value + bias).tanh()).collect()
        };
        let h = tanh(affine(self.tensor(parameters, 0), x), self.tensor(parameters, 1));
        let block = tanh(affine(self.tensor(parameters, 2), &h), self.tensor(parameters, 3));
        let r: Vec<f64> = h.iter().zip(&block).map(|(a, b)| a + b).collect();
        let outputs = affine(self.tensor(parameters, 4), &r);
        [h, block, r, outputs]
    }

    /// The derivatives of one output of one sample in all parameters.
    fn gradient(&self, parameters: &[f64], x: &[f64], output: usize) -> Vec<f64> {
        let [h, block, r, _] = self.run(parameters, x);
        let row = &self.tensor(parameters, 4)[output * HIDDEN..][..HIDDEN];
        let inner: Vec<f64> = row.iter().zip(&block).map(|(w, b)| w * (1.0 - b * b)).collect();
        let weight = self.tensor(parameters, 2);
        let outer: Vec<f64> = (0..HIDDEN)
            .map(|i| {
                let through: f64 = (0..HIDDEN).map(|k| inner[k] * weight[k * HIDDEN + i]).sum();
                (row[i] + through) * (1.0 - h[i] * h[i])
            })
            .collect();
        let mut gradient = Vec::new();
        gradient.extend(outer.iter().flat_map(|g| x.iter().map(move |x| g * x)));
        gradient.extend(&outer);
        gradient.extend(inner.iter().flat_map(|g| h.iter().map(move |h| g * h)));
        gradient.extend(&inner);
        for other in 0..OUT {
            gradient.extend(r.iter().map(|r| if other == output { *r } else { 0.0 }));
        }
        gradient
    }
}

impl LinearisedNetwork for Residual {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        IN
    }

    fn outputs(&self) -> usize {
        OUT
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        Ok(inputs.chunks_exact(IN).flat_map(|x| self.run(parameters, x)[3].clone()).collect())
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        let mut derivatives = Vec::new();
        for x in inputs.chunks_exact(IN) {
            for output in 0..OUT {
                let gradient = self.gradient(parameters, x, output);
                derivatives.extend(chosen.iter().map(|&index| gradient[index]));
            }
        }
        Ok(BatchJacobian { outputs: self.forward(parameters, inputs)?, derivatives })
    }
}

#[test]
fn the_residual_networks_derivatives_are_right() {
    let network = Residual::new();
    let parameters = numbers(3, network.layout.len());
    let x = numbers(4, IN);
    for output in 0..OUT {
        let gradient = network.gradient(&parameters, &x, output);
        assert_eq!(gradient.len(), parameters.len());
        for (index, slope) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = parameters.clone();
                moved[index] += step;
                network.run(&moved, &x)[3][output]
            };
            assert!(
                ((at(1e-5) - at(-1e-5)) / 2e-5 - slope).abs() < 1e-8,
                "output {output}, parameter {index}"
            );
        }
    }
}

/// `J' Lambda J + diag(1/g)` inverted, and `J covariance J'`, from their definitions.
fn naive(
    network: &Residual,
    parameters: &[f64],
    inputs: &[f64],
    selected: &[usize],
    variance: f64,
    test: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let size = selected.len();
    let rows = |x: &[f64]| -> Vec<Vec<f64>> {
        let of = |output| network.gradient(parameters, x, output);
        (0..OUT).map(|output| selected.iter().map(|&index| of(output)[index]).collect()).collect()
    };
    let mut precision = vec![0.0; size * size];
    for x in inputs.chunks_exact(IN) {
        let (jacobian, logits) = (rows(x), network.run(parameters, x)[3].clone());
        let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
        let p: Vec<f64> = logits.iter().map(|logit| logit.exp() / total).collect();
        for (a, b) in (0..OUT).flat_map(|a| (0..OUT).map(move |b| (a, b))) {
            let weight = f64::from(u8::from(a == b)) * p[a] - p[a] * p[b];
            for (entry, sum) in precision.iter_mut().enumerate() {
                *sum += weight * jacobian[a][entry / size] * jacobian[b][entry % size];
            }
        }
    }
    for index in 0..size {
        precision[index * size + index] += 1.0 / variance;
    }
    let (covariance, _) = inverse(&precision, size);
    let mut blocks = Vec::new();
    for x in test.chunks_exact(IN) {
        let jacobian = rows(x);
        for (a, b) in (0..OUT).flat_map(|a| (0..OUT).map(move |b| (a, b))) {
            let entries = covariance.iter().enumerate();
            blocks.push(entries.map(|(e, c)| jacobian[a][e / size] * c * jacobian[b][e % size]).sum());
        }
    }
    (covariance, blocks)
}

#[test]
fn a_network_with_a_residual_connection_agrees_with_dense_algebra() {
    let network = Arc::new(Residual::new());
    let parameters = numbers(3, network.layout.len());
    let (inputs, test) = (numbers(4, 30 * IN), numbers(5, 6 * IN));
    let labels: Vec<u32> = (0..30).map(|row| row % OUT as u32).collect();
    let problem =
        Problem::new(network.clone(), parameters.clone(), &inputs, Likelihood::Categorical).unwrap();
    let problem = problem.with_targets(Targets::Classes(&labels)).unwrap();
    let all = Prior::isotropic(0..network.layout.len(), 0.6);
    let rule = Layers::new(["block", "first.bias"]).unwrap();
    for selection in [
        problem.choose(&all, &rule, 0, &mut rng()).unwrap(),
        problem.choose(&all, &*Rules::builtin().find(&"leverage".into()).unwrap(), 9, &mut rng()).unwrap(),
        problem.choose_indices(&all, vec![0, 5, 13, 17, 33, 40]).unwrap(),
    ] {
        let selected = selection.subnetwork().indices();
        for scale in [1.0, 4.0] {
            let mut fits = problem.fit_scales(&selection, 0.0, &[1.0, 4.0]).unwrap();
            let fitted = fits.nth(usize::from(scale > 1.0)).unwrap().unwrap();
            let (covariance, blocks) = naive(&network, &parameters, &inputs, selected, 0.6 * scale, &test);
            assert_near(&fitted.posterior().covariance(), &covariance, "covariance");
            let outputs = fitted.outputs(&test).unwrap();
            assert_near(&outputs.covariance, &blocks, "covariance of the outputs");
            assert_near(&outputs.mean, &network.forward(&parameters, &test).unwrap(), "outputs");
            let p = fitted.probabilities(&test, Predictive::MonteCarlo, 50, &mut rng()).unwrap();
            assert!(p.chunks_exact(OUT).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
            assert!(fitted.log_marginal_likelihood().unwrap() < problem.log_likelihood().unwrap());
            let again = Laplace::from_parts(network.clone(), parameters.clone(), fitted.parts()).unwrap();
            assert_eq!(again.outputs(&test).unwrap(), outputs);
        }
    }
    let fitted = problem.fit(&problem.choose(&all, &rule, 0, &mut rng()).unwrap(), 0.0).unwrap();
    let shares: Vec<(&str, usize)> =
        fitted.explanation().layers.iter().map(|share| (&*share.tensor, share.chosen)).collect();
    let expected =
        [("first.weight", 0), ("first.bias", 4), ("block.weight", 16), ("block.bias", 4), ("out.weight", 0)];
    assert_eq!(shares, expected);
}

/// An error of another library.
#[derive(Debug)]
struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl Error for Exhausted {}

/// Fails, or returns too little.
#[derive(Debug)]
struct Broken(Residual, bool);

impl LinearisedNetwork for Broken {
    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn inputs(&self) -> usize {
        IN
    }

    fn outputs(&self) -> usize {
        OUT
    }

    fn forward(&self, _: &[f64], _: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        if self.1 { Ok(Vec::new()) } else { Err(EvaluationError::caused_by(Exhausted)) }
    }

    fn jacobian(&self, p: &[f64], x: &[f64], _: &[usize]) -> Result<BatchJacobian, EvaluationError> {
        self.forward(p, x).map(|outputs| BatchJacobian { outputs, derivatives: Vec::new() })
    }
}

#[test]
fn a_network_that_fails_is_a_typed_error() {
    let inputs = numbers(4, 2 * IN);
    for short in [false, true] {
        let network = Arc::new(Broken(Residual::new(), short));
        let parameters = vec![0.1; network.layout().len()];
        let problem = Problem::new(network, parameters, &inputs, Likelihood::Categorical).unwrap();
        let expected = |error: PosteriorError| match error {
            PosteriorError::Evaluation(error) => {
                let kept = error.source().is_some_and(<dyn Error>::is::<Exhausted>);
                !short && error.reason == "out of memory" && kept
            }
            PosteriorError::Length { what, .. } => short && what == "the network's outputs",
            _ => false,
        };
        assert!(expected(Curvature::diagonal(&problem, 0..4).unwrap_err()));
        assert!(expected(ggn(&problem, &[0, 3]).unwrap_err()));
        assert!(expected(PosteriorFamily::new(&problem, &[1], &[1.0], 0.0, None).unwrap_err()));
        assert!(expected(problem.with_targets(Targets::Classes(&[0, 1])).unwrap_err()));
    }
}
