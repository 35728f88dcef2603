//! Every layer's gradients against central differences, in f64.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_nn::{
    GradientSink, Loss, Network, ParameterGradient, Tape, Targets, Trainer, WeightNoise, jacobian,
};
use support::{numbers, relative_error, zoo};

const BATCH: usize = 3;
const STEP: f64 = 1e-6;

fn outputs(network: &Network, parameters: &[f64], inputs: &[f64]) -> Vec<f64> {
    let mut tape = Tape::new(network, BATCH);
    tape.inputs_mut(network, BATCH).copy_from_slice(inputs);
    tape.forward(network, parameters).to_vec()
}

/// The Jacobian `[batch, outputs, parameters]` by central differences.
fn numeric_jacobian(network: &Network, parameters: &[f64], inputs: &[f64]) -> Vec<f64> {
    let (count, rows) = (parameters.len(), BATCH * network.outputs());
    let mut jacobian = vec![0.0; rows * count];
    let mut moved = parameters.to_vec();
    for index in 0..count {
        moved[index] = parameters[index] + STEP;
        let above = outputs(network, &moved, inputs);
        moved[index] = parameters[index] - STEP;
        let below = outputs(network, &moved, inputs);
        moved[index] = parameters[index];
        for row in 0..rows {
            jacobian[row * count + index] = (above[row] - below[row]) / (2.0 * STEP);
        }
    }
    jacobian
}

struct Case {
    name: &'static str,
    network: Network,
    parameters: Vec<f64>,
    inputs: Vec<f64>,
}

fn cases() -> Vec<Case> {
    zoo()
        .into_iter()
        .map(|(name, network)| {
            let parameters = numbers(1, network.layout().len()).iter().map(|x| 0.7 * x).collect();
            let inputs = numbers(2, BATCH * network.inputs());
            Case { name, network, parameters, inputs }
        })
        .collect()
}

/// Under noise of fixed draws the loss is a function of the parameters; its gradient is what backward gives. In a
/// linear layer the noise itself depends on the layer's inputs, and so on the parameters below.
#[test]
fn gradients_under_noise() {
    for Case { name, network, parameters, inputs } in cases() {
        let labels: Vec<u32> = (0..BATCH as u32).map(|row| row % network.outputs() as u32).collect();
        let still = fedsi_nn::OptimizerSpec::Sgd { rate: 0.0, momentum: 0.0 };
        let mut trainer = Trainer::new(&network, network.all_layers(), Loss::CrossEntropy, still, BATCH);
        let noisy = network.all_layers();
        let mut loss = |parameters: &[f64]| {
            let mut rng = fedsi_random::Streams::new(3).stream(fedsi_random::Purpose::Batches, 0, 0);
            let (mut parameters, labels) = (parameters.to_vec(), Targets::Classes(&labels));
            let noise = WeightNoise { layers: &noisy, deviation: 0.3, convolution_deviation: 0.2 };
            let loss =
                trainer.noisy_step(&network, &mut parameters, &inputs, labels, &[0, 1, 2], noise, &mut rng);
            (loss, trainer.gradient().to_vec())
        };
        let (noisy_loss, gradient) = loss(&parameters);
        let mut numeric = vec![0.0; parameters.len()];
        let mut moved = parameters.clone();
        for index in 0..parameters.len() {
            moved[index] = parameters[index] + STEP;
            let above = loss(&moved).0;
            moved[index] = parameters[index] - STEP;
            numeric[index] = (above - loss(&moved).0) / (2.0 * STEP);
            moved[index] = parameters[index];
        }
        let error = relative_error(&gradient, &numeric);
        assert!(error < 1e-6 || network.outputs() == 1, "{name}: off by {error:.1e}");
        let labels = Targets::Classes(&labels);
        let exact = trainer.step(&network, &mut parameters.clone(), &inputs, labels, &[0, 1, 2]);
        assert!(exact != noisy_loss || network.outputs() == 1, "{name}: there was no noise");
    }
}

#[test]
fn jacobians_of_all_parameters() {
    for Case { name, network, parameters, inputs } in cases() {
        let mut tape = Tape::new(&network, BATCH);
        tape.inputs_mut(&network, BATCH).copy_from_slice(&inputs);
        tape.forward(&network, &parameters);
        let all: Vec<usize> = (0..parameters.len()).collect();
        let found = jacobian::columns(&mut tape, &network, &parameters, &all);
        let error = relative_error(&found, &numeric_jacobian(&network, &parameters, &inputs));
        assert!(error < 1e-8, "{name}: the Jacobian is off by {error:e}");
    }
}

/// All outputs carried back at once, in blocks of samples, give what single samples and outputs give one by one.
#[test]
fn jacobians_are_the_gradients_of_single_outputs() {
    for Case { name, network, parameters, .. } in cases() {
        // More than one block of a narrow network; of a wide one two.
        let batch =
            1 + (600 / network.outputs()).min((1 << 18) / (network.outputs() * network.activations()));
        let inputs = numbers(7, batch * network.inputs());
        let mut tape = Tape::new(&network, batch);
        tape.inputs_mut(&network, batch).copy_from_slice(&inputs);
        tape.forward(&network, &parameters);
        let all: Vec<usize> = (0..parameters.len()).collect();
        let found = jacobian::columns(&mut tape, &network, &parameters, &all);

        let mut single = Tape::new(&network, 1);
        let mut gradient = ParameterGradient::new(&network);
        let mut expected = Vec::with_capacity(found.len());
        for input in inputs.chunks_exact(network.inputs()) {
            single.inputs_mut(&network, 1).copy_from_slice(input);
            single.forward(&network, &parameters);
            for output in 0..network.outputs() {
                let (_, slopes) = single.outputs_and_gradient(&network);
                slopes.fill(0.0);
                slopes[output] = 1.0;
                single.backward(&network, &parameters, &network.all_layers(), &mut gradient);
                expected.extend_from_slice(gradient.values());
            }
        }
        let error = relative_error(&found, &expected);
        assert!(error < 1e-13, "{name}: {batch} samples at once are off by {error:e}");
    }
}

#[test]
fn jacobians_of_selected_parameters_are_columns_of_the_whole() {
    for Case { name, network, parameters, inputs } in cases() {
        let mut tape = Tape::new(&network, BATCH);
        tape.inputs_mut(&network, BATCH).copy_from_slice(&inputs);
        tape.forward(&network, &parameters);
        let all: Vec<usize> = (0..parameters.len()).collect();
        let whole = jacobian::columns(&mut tape, &network, &parameters, &all);
        let some: Vec<usize> = (0..parameters.len()).filter(|index| index % 3 == 1).collect();
        let part = jacobian::columns(&mut tape, &network, &parameters, &some);
        for (row, line) in part.chunks_exact(some.len()).enumerate() {
            for (value, &index) in line.iter().zip(&some) {
                assert_eq!(*value, whole[row * all.len() + index], "{name}: row {row}, parameter {index}");
            }
        }
    }
}

#[test]
fn backward_is_the_transpose_of_the_jacobian() {
    for Case { name, network, parameters, inputs } in cases() {
        let weights = numbers(3, BATCH * network.outputs());
        let mut tape = Tape::new(&network, BATCH);
        tape.inputs_mut(&network, BATCH).copy_from_slice(&inputs);
        tape.forward(&network, &parameters);
        tape.outputs_and_gradient(&network).1.copy_from_slice(&weights);
        let mut gradient = ParameterGradient::new(&network);
        tape.backward(&network, &parameters, &network.all_layers(), &mut gradient);

        let jacobian = numeric_jacobian(&network, &parameters, &inputs);
        let mut expected = vec![0.0; parameters.len()];
        for (row, weight) in jacobian.chunks_exact(parameters.len()).zip(&weights) {
            for (sum, value) in expected.iter_mut().zip(row) {
                *sum += weight * value;
            }
        }
        let error = relative_error(gradient.values(), &expected);
        assert!(error < 1e-8, "{name}: the gradient is off by {error:e}");
    }
}

/// Counts which layers a backward pass reaches.
struct Reached(Vec<usize>);

impl GradientSink<f64> for Reached {
    fn layer(&mut self, _: &Network, layer: usize, _: &[f64], _: &[f64], _: usize) {
        self.0.push(layer);
    }
}

#[test]
fn a_backward_pass_goes_no_further_than_asked() {
    let (_, network) = zoo().pop().unwrap();
    let parameters = numbers(1, network.layout().len());
    let mut tape = Tape::new(&network, BATCH);
    tape.inputs_mut(&network, BATCH).copy_from_slice(&numbers(2, BATCH * network.inputs()));
    tape.forward(&network, &parameters);
    let reached = |tape: &mut Tape<f64>, layers| {
        let mut sink = Reached(Vec::new());
        tape.backward(&network, &parameters, &layers, &mut sink);
        sink.0
    };
    assert_eq!(reached(&mut tape, network.all_layers()), [8, 6, 3, 0]);
    assert_eq!(reached(&mut tape, network.body_layers()), [6, 3, 0]);
    assert_eq!(reached(&mut tape, network.head_layer()), [8]);
    assert_eq!(reached(&mut tape, network.layers_where(|layer| [3, 7, 8].contains(&layer))), [8, 3]);
}

#[test]
fn layers_without_parameters_are_in_no_set() {
    let (_, network) = zoo().swap_remove(7);
    assert_eq!(network.specs()[0], fedsi_nn::LayerSpec::Flatten);
    assert_eq!(network.all_layers().lowest(), Some(1), "the gradient in the input is never computed");
}

#[test]
fn losses_have_the_gradient_they_report() {
    let (_, network) = zoo().swap_remove(3);
    let parameters = numbers(1, network.layout().len());
    let inputs = numbers(2, BATCH * network.inputs());
    let values = numbers(4, BATCH * network.outputs());
    let labels = [0, 1, 1];
    for (loss, targets) in [
        (Loss::CrossEntropy, Targets::Classes(&labels)),
        (Loss::Gaussian { noise: 0.3 }, Targets::Values(&values)),
    ] {
        let rows = [2, 0, 1];
        let run = |parameters: &[f64]| {
            let rate = fedsi_nn::OptimizerSpec::Sgd { rate: 0.0, momentum: 0.0 };
            let mut trainer = Trainer::new(&network, network.all_layers(), loss, rate, BATCH);
            let value = trainer.step(&network, &mut parameters.to_vec(), &inputs, targets, &rows);
            (value, trainer.gradient().to_vec())
        };
        let (_, found) = run(&parameters);
        let expected: Vec<f64> = (0..parameters.len())
            .map(|index| {
                let (mut above, mut below) = (parameters.clone(), parameters.clone());
                above[index] += STEP;
                below[index] -= STEP;
                (run(&above).0 - run(&below).0) / (2.0 * STEP)
            })
            .collect();
        let error = relative_error(&found, &expected);
        assert!(error < 1e-8, "{loss:?}: the gradient is off by {error:e}");
    }
}
