//! How a network is written down: in a config file, in `case.json`, in a saved model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One layer of a network, as written in a config.
///
/// In TOML or JSON a layer is its name, or a table with its settings:
///
/// ```
/// use fedsi_nn::{ConvSpec, LayerSpec, PoolSpec};
/// let text = r#"[{"conv": {"out": 6, "kernel": 5}}, "relu", {"maxpool": 2}, "flatten", {"linear": 10}]"#;
/// let layers: Vec<LayerSpec> = serde_json::from_str(text)?;
/// assert_eq!(layers[0], LayerSpec::Conv(ConvSpec { out: 6, kernel: 5, stride: 1, padding: 0 }));
/// assert_eq!(layers[2], LayerSpec::MaxPool(PoolSpec::square(2)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum LayerSpec {
    /// Fully connected, with a bias: the number of outputs.
    #[serde(rename = "linear")]
    Linear(usize),
    /// Two-dimensional convolution, with a bias.
    #[serde(rename = "conv")]
    Conv(ConvSpec),
    /// The largest value of each window.
    #[serde(rename = "maxpool")]
    MaxPool(PoolSpec),
    /// The mean of each window.
    #[serde(rename = "avgpool")]
    AvgPool(PoolSpec),
    /// Everything but the batch in one row.
    #[serde(rename = "flatten")]
    Flatten,
    /// max(x, 0).
    #[serde(rename = "relu")]
    Relu,
    /// x where positive, slope * x elsewhere: the slope.
    #[serde(rename = "leaky-relu")]
    LeakyRelu(f64),
    /// Hyperbolic tangent.
    #[serde(rename = "tanh")]
    Tanh,
    /// 1 / (1 + exp(-x)).
    #[serde(rename = "sigmoid")]
    Sigmoid,
    /// x * sigmoid(x), also called swish.
    #[serde(rename = "silu")]
    Silu,
    /// log(1 + exp(x)).
    #[serde(rename = "softplus")]
    Softplus,
    /// x times the normal distribution function of x: PyTorch's GELU, without its approximation.
    #[serde(rename = "gelu")]
    Gelu,
    /// Its input as it is.
    #[serde(rename = "identity")]
    Identity,
}

impl LayerSpec {
    /// The layer's name as written in a config.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Conv(_) => "conv",
            Self::MaxPool(_) => "maxpool",
            Self::AvgPool(_) => "avgpool",
            Self::Flatten => "flatten",
            Self::Relu => "relu",
            Self::LeakyRelu(_) => "leaky-relu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Silu => "silu",
            Self::Softplus => "softplus",
            Self::Gelu => "gelu",
            Self::Identity => "identity",
        }
    }
}

const fn one() -> usize {
    1
}

/// Settings of a convolution: square kernel, the same stride and zero padding in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvSpec {
    /// Output channels.
    pub out: usize,
    /// Side of the kernel.
    pub kernel: usize,
    /// Step between windows.
    #[serde(default = "one")]
    pub stride: usize,
    /// Zeros added on each side.
    #[serde(default)]
    pub padding: usize,
}

/// Settings of a pooling layer: its window, or a table `{ window, stride }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "PoolText", into = "PoolText")]
#[schemars(with = "PoolText")]
pub struct PoolSpec {
    /// Side of the window.
    pub window: usize,
    /// Step between windows; the window's side unless said.
    pub stride: usize,
}

impl PoolSpec {
    /// Windows side by side.
    #[must_use]
    pub const fn square(window: usize) -> Self {
        Self { window, stride: window }
    }
}

/// `2`, or `{ window = 3, stride = 2 }`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the window's side, or { window = N, stride = N }")]
enum PoolText {
    /// Windows side by side.
    Square(usize),
    /// Window and stride.
    Strided(PoolTable),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    /// Side of the window.
    window: usize,
    /// Step between windows.
    stride: usize,
}

impl From<PoolText> for PoolSpec {
    fn from(text: PoolText) -> Self {
        match text {
            PoolText::Square(window) => Self::square(window),
            PoolText::Strided(PoolTable { window, stride }) => Self { window, stride },
        }
    }
}

impl From<PoolSpec> for PoolText {
    fn from(PoolSpec { window, stride }: PoolSpec) -> Self {
        if window == stride { Self::Square(window) } else { Self::Strided(PoolTable { window, stride }) }
    }
}
