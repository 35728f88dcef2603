//! The network as the kernel takes it: stages of layers that one device function does together.

use fedsi_nn::{ConvSpec, LayerSpec, Network, PoolSpec};

use crate::activation::activation_name;

/// A stage: what lies between two neighbouring slots of activations. Stage `i` reads slot `i` and writes slot `i + 1`.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) work: Work,
    /// Applied to the outputs: one whose derivative needs them alone.
    pub(super) function: String,
    /// Index of the network's layer with parameters; of the only layer otherwise.
    pub(super) layer: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Linear {
        inputs: usize,
        outputs: usize,
    },
    /// With 2 by 2 max pooling after it, or not.
    Convolution {
        spec: ConvSpec,
        pooled: bool,
    },
    MaxPool(PoolSpec),
    AveragePool(PoolSpec),
    /// `Stage::function` as a layer of its own.
    Activation(String),
}

/// Activations between stages.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) shape: Vec<usize>,
    pub(super) layout: Layout,
}

/// How the kernel lays a slot out (`kernels/common.cuh`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Interleaved,
    Image { padding: usize },
}

/// Whether a layer can apply this activation to its outputs and forget what went in.
const fn joins_layer(spec: &LayerSpec) -> bool {
    matches!(spec, LayerSpec::Relu | LayerSpec::Tanh | LayerSpec::Sigmoid)
}

const PAIRS: LayerSpec = LayerSpec::MaxPool(PoolSpec::square(2));

/// Groups a network's layers into stages; the slots are one more.
pub(super) fn stages(network: &Network) -> (Vec<Stage>, Vec<Slot>) {
    // Layers that change no value are no stages.
    let layers: Vec<(usize, &LayerSpec)> = network
        .specs()
        .iter()
        .enumerate()
        .filter(|(_, spec)| !matches!(spec, LayerSpec::Flatten | LayerSpec::Identity))
        .collect();
    let mut shape = network.input_shape().to_vec();
    let mut stages = Vec::new();
    let mut shapes = vec![shape.clone()];
    let mut next = 0;
    while let Some(&(layer, spec)) = layers.get(next) {
        let later = |offset: usize| layers.get(next + offset).map(|&(_, spec)| spec);
        let mut function = None;
        let mut taken = 1;
        let work = match spec {
            LayerSpec::Linear(outputs) => {
                let inputs = shape.iter().product();
                shape = vec![*outputs];
                function = later(1).filter(|spec| joins_layer(spec));
                Work::Linear { inputs, outputs: *outputs }
            }
            LayerSpec::Conv(spec) => {
                let side = |side: usize| (side + 2 * spec.padding - spec.kernel) / spec.stride + 1;
                shape = vec![spec.out, side(shape[1]), side(shape[2])];
                // A rectified maximum is the maximum of rectified values, and its gradient goes the same way: where all are
                // 0 it goes nowhere.
                let pooled = match (later(1), later(2)) {
                    (Some(LayerSpec::Relu), Some(pool)) if *pool == PAIRS => {
                        function = later(1);
                        true
                    }
                    (Some(pool), after) if *pool == PAIRS => {
                        function = after.filter(|spec| joins_layer(spec));
                        true
                    }
                    (after, _) => {
                        function = after.filter(|spec| joins_layer(spec));
                        false
                    }
                };
                if pooled {
                    shape = vec![spec.out, shape[1] / 2, shape[2] / 2];
                    taken += 1;
                }
                Work::Convolution { spec: *spec, pooled }
            }
            LayerSpec::MaxPool(spec) => {
                pool_shape(&mut shape, *spec);
                Work::MaxPool(*spec)
            }
            LayerSpec::AvgPool(spec) => {
                pool_shape(&mut shape, *spec);
                Work::AveragePool(*spec)
            }
            LayerSpec::Relu
            | LayerSpec::LeakyRelu(_)
            | LayerSpec::Tanh
            | LayerSpec::Sigmoid
            | LayerSpec::Silu
            | LayerSpec::Softplus
            | LayerSpec::Gelu => Work::Activation(activation_name(spec).unwrap_or_default()),
            // Left out above: they change no value.
            LayerSpec::Flatten | LayerSpec::Identity => {
                next += 1;
                continue;
            }
        };
        taken += usize::from(function.is_some());
        let function = function.and_then(activation_name).unwrap_or_else(|| "Identity".to_owned());
        stages.push(Stage { work, function, layer });
        shapes.push(shape.clone());
        next += taken;
    }
    let slots = shapes
        .into_iter()
        .enumerate()
        .map(|(index, shape)| Slot { shape, layout: layout_for(&stages[index.min(stages.len())..]) })
        .collect();
    (stages, slots)
}

fn pool_shape(shape: &mut [usize], pool: PoolSpec) {
    for side in &mut shape[1..] {
        *side = (*side - pool.window) / pool.stride + 1;
    }
}

/// The layout that the first stage that is no activation wants of its inputs.
fn layout_for(stages: &[Stage]) -> Layout {
    match stages.iter().map(|stage| &stage.work).find(|work| !matches!(work, Work::Activation(_))) {
        None | Some(Work::Linear { .. } | Work::Activation(_)) => Layout::Interleaved,
        Some(Work::Convolution { spec, .. }) => Layout::Image { padding: spec.padding },
        Some(Work::MaxPool(_) | Work::AveragePool(_)) => Layout::Image { padding: 0 },
    }
}

impl Slot {
    /// Values of a sample.
    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Floats of a chunk's values.
    pub(super) fn floats(&self) -> usize {
        match self.layout {
            Layout::Interleaved => self.count().next_multiple_of(4) * super::SAMPLES,
            Layout::Image { padding } => {
                let plane = (self.shape[1] + 2 * padding) * (self.shape[2] + 2 * padding);
                (self.shape[0] * plane).next_multiple_of(4) * super::SAMPLES
            }
        }
    }

    /// Floats of the gradient in them, which has no border.
    pub(super) fn gradient_floats(&self) -> usize {
        self.count().next_multiple_of(4) * super::SAMPLES
    }

    /// Its C++ type.
    pub(super) fn type_name(&self) -> String {
        match self.layout {
            Layout::Interleaved => format!("Interleaved<{}>", self.count()),
            Layout::Image { padding } => {
                format!("Image<{}, {}, {}, {padding}>", self.shape[0], self.shape[1], self.shape[2])
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use fedsi_nn::LayerSpec::{Conv, Flatten, Gelu, Identity, Linear, MaxPool, Relu, Tanh};

    const CONV: LayerSpec = Conv(ConvSpec { out: 4, kernel: 3, stride: 1, padding: 1 });

    /// Each stage as text, with the layer it belongs to.
    fn described(layers: &[LayerSpec]) -> Vec<String> {
        let network = Network::new(&[2, 8, 8], layers).unwrap();
        let (stages, slots) = stages(&network);
        assert_eq!(slots.len(), stages.len() + 1);
        let name = |work: &Work| match work {
            Work::Linear { .. } => "linear".to_owned(),
            Work::Convolution { pooled, .. } => format!("conv{}", if *pooled { " pooled" } else { "" }),
            Work::MaxPool(_) => "maxpool".to_owned(),
            Work::AveragePool(_) => "avgpool".to_owned(),
            Work::Activation(function) => function.clone(),
        };
        stages
            .iter()
            .map(|stage| format!("{} {} {}", stage.layer, name(&stage.work), stage.function))
            .collect()
    }

    #[test]
    fn layers_join_into_stages_where_one_function_does_them() {
        let pool = MaxPool(PoolSpec::square(2));
        let found = described(&[
            CONV,
            Relu,
            pool.clone(),
            CONV,
            pool.clone(),
            Tanh,
            Flatten,
            Linear(5),
            Relu,
            Linear(3),
        ]);
        assert_eq!(found, ["0 conv pooled Relu", "3 conv pooled Tanh", "7 linear Relu", "9 linear Identity"]);
        // Saturated values are equal where what went in was not: the maximum is taken of what came out.
        let found = described(&[CONV, Tanh, pool, Identity, CONV, Gelu, Flatten, Linear(3)]);
        assert_eq!(
            found,
            ["0 conv Tanh", "2 maxpool Identity", "4 conv Identity", "5 Gelu Identity", "7 linear Identity"]
        );
    }

    #[test]
    fn activations_lie_as_the_next_layer_reads_them() {
        let network = Network::new(&[2, 8, 8], &[CONV, Gelu, CONV, Flatten, Linear(3)]).unwrap();
        let layouts: Vec<Layout> = stages(&network).1.iter().map(|slot| slot.layout).collect();
        let padded = Layout::Image { padding: 1 };
        assert_eq!(layouts, [padded, padded, padded, Layout::Interleaved, Layout::Interleaved]);
    }
}
