//! A network's layers with their shapes, as kernels that work layer by layer take them.

use std::ops::Range;

use fedsi_nn::{LayerSpec, Network, PoolSpec};

use crate::activation::activation_name;

/// A layer that changes values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) work: Work,
    /// Its index in the network.
    pub(crate) index: usize,
    /// Values of a row before it.
    pub(crate) inputs: usize,
    /// Values of a row after it.
    pub(crate) outputs: usize,
    /// Where its weights, then its biases, lie in the flat parameters; empty without any.
    pub(crate) parameters: Range<usize>,
    /// Where the biases begin.
    pub(crate) bias: usize,
}

/// What a layer does. Texts are C++ types of `kernels/forward_layers.cuh` and `kernels/activation.cuh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Linear,
    Convolution(String),
    MaxPool(String),
    AveragePool(String),
    Activation(String),
}

/// The network's layers but for those that change no value.
pub(crate) fn layers(network: &Network) -> Vec<Layer> {
    let mut shape = network.input_shape().to_vec();
    let mut found = Vec::new();
    for (index, spec) in network.specs().iter().enumerate() {
        let inputs = shape.iter().product();
        let Some((work, after)) = work_of(spec, &shape) else {
            if matches!(spec, LayerSpec::Flatten) {
                shape = vec![inputs];
            }
            continue;
        };
        let parameters = network.layout().of_layer(index);
        let bias = match work {
            Work::Linear | Work::Convolution(_) => parameters.end - after[0],
            _ => parameters.end,
        };
        shape = after;
        found.push(Layer { work, index, inputs, outputs: shape.iter().product(), parameters, bias });
    }
    found
}

/// What a layer does to values of this shape, and their shape after it; nothing for a layer that leaves them as they are.
fn work_of(spec: &LayerSpec, shape: &[usize]) -> Option<(Work, Vec<usize>)> {
    let windows = |out: usize, kernel: usize, stride: usize, padding: usize| {
        let side = |side: usize| (side + 2 * padding - kernel) / stride + 1;
        let name = format!(
            "Windows<{}, {}, {}, {out}, {kernel}, {stride}, {padding}>",
            shape[0], shape[1], shape[2]
        );
        (name, vec![out, side(shape[1]), side(shape[2])])
    };
    let pool = |PoolSpec { window, stride }: PoolSpec| windows(shape[0], window, stride, 0);
    match *spec {
        LayerSpec::Linear(outputs) => Some((Work::Linear, vec![outputs])),
        LayerSpec::Conv(conv) => {
            let (name, after) = windows(conv.out, conv.kernel, conv.stride, conv.padding);
            Some((Work::Convolution(name), after))
        }
        LayerSpec::MaxPool(spec) => {
            let (name, after) = pool(spec);
            Some((Work::MaxPool(name), after))
        }
        LayerSpec::AvgPool(spec) => {
            let (name, after) = pool(spec);
            Some((Work::AveragePool(name), after))
        }
        LayerSpec::Relu
        | LayerSpec::LeakyRelu(_)
        | LayerSpec::Tanh
        | LayerSpec::Sigmoid
        | LayerSpec::Silu
        | LayerSpec::Softplus
        | LayerSpec::Gelu => Some((Work::Activation(activation_name(spec)?), shape.to_vec())),
        LayerSpec::Flatten | LayerSpec::Identity => None,
    }
}

/// `Err` where a row, or the parameters, have more values than the kernels' 32-bit indices reach.
pub(crate) fn check_sizes(layers: &[Layer], rows: usize) -> Result<(), crate::CudaError> {
    let largest = i32::MAX as usize;
    for layer in layers {
        let values = layer.inputs.max(layer.outputs).saturating_mul(rows);
        if values > largest || layer.parameters.len() > largest {
            return Err(crate::CudaError::Unsupported(format!(
                "take layer {} with {} values a row: {rows} rows of it are more than {largest} values; use the CPU for this network",
                layer.index,
                layer.inputs.max(layer.outputs)
            )));
        }
    }
    Ok(())
}
