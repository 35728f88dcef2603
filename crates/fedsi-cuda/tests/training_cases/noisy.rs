//! Training under noise on parameters, from its definition: a forward pass in f64 with the draws of `kernels/random.cuh`, and
//! its gradient by central differences.

use fedsi_nn::{LayerSet, LayerSpec, Loss, Network, OptimizerSpec};

use super::{Case, Data, double};
use crate::emulator::philox::one_normal;

/// Parameters and losses after the case's steps of SGD.
pub(super) fn train(case: &Case, network: &Network, data: &Data, layers: &LayerSet) -> (Vec<f64>, Vec<f64>) {
    let OptimizerSpec::Sgd { rate, momentum: 0.0 } = case.optimizer else { panic!("plain SGD only") };
    let mut parameters = double(&data.start);
    let mut losses = Vec::new();
    for step in 0..case.steps {
        let loss = |parameters: &[f64]| mean_loss(case, network, data, layers, parameters, step);
        losses.push(loss(&parameters));
        let mut gradient = vec![0.0; parameters.len()];
        for span in layers.spans(network.layout()) {
            for index in span {
                let mut moved = parameters.clone();
                let mut at = |value: f64| {
                    moved[index] = value;
                    loss(&moved)
                };
                let width = 1e-5;
                let value = parameters[index];
                gradient[index] = (at(value + width) - at(value - width)) / (2.0 * width);
            }
        }
        parameters.iter_mut().zip(&gradient).for_each(|(value, slope)| *value -= rate * slope);
    }
    (parameters, losses)
}

fn mean_loss(
    case: &Case,
    network: &Network,
    data: &Data,
    layers: &LayerSet,
    parameters: &[f64],
    step: usize,
) -> f64 {
    let rows = &data.batches[step];
    let size = network.inputs();
    let sum: f64 = rows
        .iter()
        .enumerate()
        .map(|(place, &row)| {
            let input = double(&data.inputs[row as usize * size..][..size]);
            let outputs = forward(case, network, data.key, layers, parameters, step, place, input);
            assert_eq!(case.loss, Loss::CrossEntropy, "noise is tested under cross-entropy");
            let top = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = outputs.iter().map(|logit| (logit - top).exp()).sum();
            top + total.ln() - outputs[data.classes[row as usize] as usize]
        })
        .sum();
    sum / rows.len() as f64
}

/// Outputs of one sample, which is `place` in its batch.
#[allow(clippy::too_many_arguments)]
fn forward(
    case: &Case,
    network: &Network,
    key: u64,
    layers: &LayerSet,
    parameters: &[f64],
    step: usize,
    place: usize,
    input: Vec<f64>,
) -> Vec<f64> {
    let (linear_noise, convolution_noise) = case.noise.unwrap();
    let mut shape = network.input_shape().to_vec();
    let mut x = input;
    for (layer, spec) in network.specs().iter().enumerate() {
        let own = &parameters[network.layout().of_layer(layer)];
        let moves = layers.contains(layer);
        let draw = |index: usize| one_normal(key, step as u32, layer as u32, index as u32, 0);
        x = match spec {
            LayerSpec::Linear(outputs) => {
                let deviation = if moves { linear_noise } else { 0.0 };
                let norm = (1.0 + x.iter().map(|x| x * x).sum::<f64>()).sqrt();
                let (weights, biases) = own.split_at(outputs * x.len());
                let rows = weights.chunks_exact(x.len()).zip(biases).enumerate();
                rows.map(|(output, (row, bias))| {
                    let sum: f64 = row.iter().zip(&x).map(|(weight, x)| weight * x).sum();
                    sum + bias + deviation * norm * draw(place * outputs + output)
                })
                .collect()
            }
            LayerSpec::Conv(conv) => {
                let deviation = if moves { convolution_noise } else { 0.0 };
                let drawn: Vec<f64> =
                    own.iter().enumerate().map(|(index, value)| value + deviation * draw(index)).collect();
                let (channels, height, width) = (shape[0], shape[1], shape[2]);
                let side = |side: usize| (side + 2 * conv.padding - conv.kernel) / conv.stride + 1;
                let (tall, wide) = (side(height), side(width));
                let mut y = Vec::new();
                for out in 0..conv.out {
                    for place in 0..tall * wide {
                        let mut sum = drawn[conv.out * channels * conv.kernel * conv.kernel + out];
                        for tap in 0..channels * conv.kernel * conv.kernel {
                            let (channel, within) =
                                (tap / (conv.kernel * conv.kernel), tap % (conv.kernel * conv.kernel));
                            let row = (place / wide * conv.stride + within / conv.kernel)
                                .wrapping_sub(conv.padding);
                            let column = (place % wide * conv.stride + within % conv.kernel)
                                .wrapping_sub(conv.padding);
                            if row < height && column < width {
                                let weight = drawn[out * channels * conv.kernel * conv.kernel + tap];
                                sum += weight * x[(channel * height + row) * width + column];
                            }
                        }
                        y.push(sum);
                    }
                }
                shape = vec![conv.out, tall, wide];
                y
            }
            LayerSpec::Tanh => x.iter().map(|x| x.tanh()).collect(),
            LayerSpec::Flatten => x,
            other => panic!("{} is not in the reference", other.name()),
        };
    }
    x
}
