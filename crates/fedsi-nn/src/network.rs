//! A checked list of layers.

use crate::layers::{Activation, Conv2d, Layer, Linear, Pool, PoolKind};
use crate::{LayerSet, LayerSpec, Layout, NetworkError, PoolSpec};

/// Largest number of values of one layer's output or parameters: keeps every size well inside `u32`, which
/// max pooling stores, and sums over [`MOST_LAYERS`] of them well inside 64 bits. Whether a whole network fits into memory
/// is for its user to decide.
const LARGEST: usize = 1 << 30;

/// Most layers, the head included: beyond some hundreds no gradient reaches the first of them.
const MOST_LAYERS: usize = 1_000;

/// Largest side of a convolution's kernel.
const LARGEST_KERNEL: usize = 1024;

/// A sequence of layers whose shapes fit, with the layout of its parameters. The last layer is linear: the head.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    specs: Vec<LayerSpec>,
    input: Vec<usize>,
    pub(crate) layers: Vec<Layer>,
    /// Values a sample has before layer 0, after layer 0, after layer 1, ...
    pub(crate) sizes: Vec<usize>,
    layout: Layout,
}

impl Network {
    /// Checks that the layers fit together on inputs of this shape (`[features]` or `[channels, height,
    /// width]`).
    ///
    /// # Errors
    /// Says which layer does not fit and what it would take.
    pub fn new(input: &[usize], specs: &[LayerSpec]) -> Result<Self, NetworkError> {
        if specs.is_empty() || input.is_empty() || input.contains(&0) {
            return Err(NetworkError::Empty { input: input.to_vec(), layers: specs.len() });
        }
        if let Some(last) = specs.last().filter(|last| !matches!(last, LayerSpec::Linear(_))) {
            return Err(NetworkError::Head { found: last.name() });
        }
        if specs.len() > MOST_LAYERS {
            return Err(NetworkError::TooManyLayers { found: specs.len(), most: MOST_LAYERS });
        }
        let mut shape = input.to_vec();
        let mut sizes = vec![checked_size(0, &shape)?];
        let mut layers = Vec::with_capacity(specs.len());
        let mut layout = Layout::default();
        for (index, spec) in specs.iter().enumerate() {
            if index + 1 == specs.len() {
                layout.start_head();
            }
            let (layer, after) = build(index, spec, &shape)?;
            match &layer {
                Layer::Linear(linear) => {
                    let weight = vec![linear.outputs, linear.inputs];
                    checked_size(index, &weight)?;
                    layout.push(index, "weight", weight);
                    layout.push(index, "bias", vec![linear.outputs]);
                }
                Layer::Conv(conv) => {
                    let weight = vec![conv.out, conv.channels, conv.kernel, conv.kernel];
                    checked_size(index, &weight)?;
                    layout.push(index, "weight", weight);
                    layout.push(index, "bias", vec![conv.out]);
                }
                Layer::Pool(_) | Layer::Activation(_) | Layer::Flatten => {}
            }
            sizes.push(checked_size(index, &after)?);
            layers.push(layer);
            shape = after;
        }
        Ok(Self { specs: specs.to_vec(), input: input.to_vec(), layers, sizes, layout })
    }

    /// The head alone: the last layer as a network on the body's features. Its parameters are
    /// `parameters[layout.head()]`.
    #[must_use]
    pub fn head(&self) -> Self {
        let last = self.specs.len() - 1;
        let features = self.sizes[last];
        let mut layout = Layout::default();
        layout.start_head();
        layout.push(0, "weight", vec![self.outputs(), features]);
        layout.push(0, "bias", vec![self.outputs()]);
        Self {
            specs: self.specs[last..].to_vec(),
            input: vec![features],
            layers: self.layers[last..].to_vec(),
            sizes: self.sizes[last..].to_vec(),
            layout,
        }
    }

    /// The layers as they were described.
    #[must_use]
    pub fn specs(&self) -> &[LayerSpec] {
        &self.specs
    }

    /// Shape of one input.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        &self.input
    }

    /// Values of one input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// Values of one output: classes, or regression targets.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.sizes[self.layers.len()]
    }

    /// Values the head sees for one input.
    #[must_use]
    pub fn features(&self) -> usize {
        self.sizes[self.layers.len() - 1]
    }

    /// Values of one sample before, between and after all layers: what a `Tape` keeps of it.
    #[must_use]
    pub fn activations(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Names and places of the parameters.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every layer with parameters.
    #[must_use]
    pub fn all_layers(&self) -> LayerSet {
        self.layers_where(|_| true)
    }

    /// The layers with parameters below the head.
    #[must_use]
    pub fn body_layers(&self) -> LayerSet {
        self.layers_where(|layer| layer + 1 < self.layers.len())
    }

    /// The head alone.
    #[must_use]
    pub fn head_layer(&self) -> LayerSet {
        self.layers_where(|layer| layer + 1 == self.layers.len())
    }

    /// The layers with parameters for which `wanted` holds.
    #[must_use]
    pub fn layers_where(&self, mut wanted: impl FnMut(usize) -> bool) -> LayerSet {
        // Only layers with parameters: a gradient that need not pass below the first of them does not.
        LayerSet::new(
            (0..self.layers.len()).map(|layer| !self.layout.of_layer(layer).is_empty() && wanted(layer)),
        )
    }
}

fn checked_size(layer: usize, shape: &[usize]) -> Result<usize, NetworkError> {
    shape
        .iter()
        .try_fold(1_usize, |size, &side| size.checked_mul(side))
        .filter(|&size| size <= LARGEST)
        .ok_or(NetworkError::TooLarge { layer })
}

/// The layer for a spec on inputs of `shape`, and the shape of what comes out.
fn build(index: usize, spec: &LayerSpec, shape: &[usize]) -> Result<(Layer, Vec<usize>), NetworkError> {
    let name = spec.name();
    let misfit =
        |expected: String| NetworkError::Shape { layer: index, name, shape: shape.to_vec(), expected };
    let setting = |reason: &str| NetworkError::Setting { layer: index, name, reason: reason.to_owned() };
    let image = || match *shape {
        [channels, height, width] => Ok((channels, height, width)),
        _ => Err(misfit("it takes images of shape [channels, height, width]".to_owned())),
    };
    let pool = |kind, PoolSpec { window, stride }: PoolSpec| {
        let (channels, height, width) = image()?;
        if window == 0 || stride == 0 {
            return Err(setting("window and stride must be at least 1"));
        }
        if window > height || window > width {
            return Err(misfit(format!("its window of {window} is larger than the image")));
        }
        let (out_height, out_width) = ((height - window) / stride + 1, (width - window) / stride + 1);
        let pool = Pool { kind, channels, height, width, window, stride, out_height, out_width };
        Ok((Layer::Pool(pool), vec![channels, out_height, out_width]))
    };
    let same = |activation| Ok((Layer::Activation(activation), shape.to_vec()));
    match *spec {
        LayerSpec::Linear(outputs) => match *shape {
            _ if outputs == 0 => Err(setting("it needs at least one output")),
            [inputs] => Ok((Layer::Linear(Linear { inputs, outputs }), vec![outputs])),
            _ => Err(misfit("it takes a flat input; put `flatten` before it".to_owned())),
        },
        LayerSpec::Conv(conv) => {
            let (channels, height, width) = image()?;
            if conv.out == 0 || conv.kernel == 0 || conv.stride == 0 {
                return Err(setting("out, kernel and stride must be at least 1"));
            }
            if conv.kernel > LARGEST_KERNEL {
                return Err(setting("kernel must be at most 1024"));
            }
            if conv.padding >= conv.kernel {
                return Err(setting("padding must be smaller than the kernel"));
            }
            // Sides of a shape are at most LARGEST, and padding is below LARGEST_KERNEL.
            let (tall, wide) = (height + 2 * conv.padding, width + 2 * conv.padding);
            if conv.kernel > tall || conv.kernel > wide {
                return Err(misfit(format!("its kernel of {} is larger than the image", conv.kernel)));
            }
            // A convolution lays out what every tap sees of one padded image.
            let taps = channels.saturating_mul(conv.kernel * conv.kernel).saturating_add(conv.out);
            checked_size(index, &[taps, tall, wide])?;
            let out_height = (tall - conv.kernel) / conv.stride + 1;
            let out_width = (wide - conv.kernel) / conv.stride + 1;
            let layer = Conv2d {
                channels,
                height,
                width,
                out: conv.out,
                kernel: conv.kernel,
                stride: conv.stride,
                padding: conv.padding,
                out_height,
                out_width,
            };
            Ok((Layer::Conv(layer), vec![conv.out, out_height, out_width]))
        }
        LayerSpec::MaxPool(spec) => pool(PoolKind::Max, spec),
        LayerSpec::AvgPool(spec) => pool(PoolKind::Average, spec),
        LayerSpec::Flatten => Ok((Layer::Flatten, vec![shape.iter().product()])),
        LayerSpec::Relu => same(Activation::Relu),
        LayerSpec::LeakyRelu(slope) if !slope.is_finite() => Err(setting("its slope must be finite")),
        LayerSpec::LeakyRelu(slope) => same(Activation::LeakyRelu(slope)),
        LayerSpec::Tanh => same(Activation::Tanh),
        LayerSpec::Sigmoid => same(Activation::Sigmoid),
        LayerSpec::Silu => same(Activation::Silu),
        LayerSpec::Softplus => same(Activation::Softplus),
        LayerSpec::Gelu => same(Activation::Gelu),
        // As little as `flatten`: its output is its input.
        LayerSpec::Identity => Ok((Layer::Flatten, shape.to_vec())),
    }
}
