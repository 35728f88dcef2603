//! Layers of `case.json`: those of a network, those that do nothing when predicting, and normalisation that is folded into
//! the layer before it.

use std::borrow::Cow;

use fedsi_nn::{LayerSpec, Network};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::tensors::Opened;
use crate::output::BadInput;

/// What PyTorch adds to a variance where nothing else is said.
const EPSILON: f64 = 1e-5;

/// One layer; its number in the list is that of `torch.nn.Sequential`, whatever it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseLayer {
    /// A layer of the network.
    Network(LayerSpec),
    /// Dropout, which does nothing when predicting.
    Inactive,
    /// Batch normalisation with running statistics, as in `eval()`.
    BatchNorm {
        /// Added to the variance.
        epsilon: f64,
    },
}

/// The settings of a batch normalisation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchNormSettings {
    #[serde(default)]
    eps: Option<f64>,
}

impl<'de> Deserialize<'de> for CaseLayer {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(input)?;
        let name = match &value {
            Value::String(name) => name.clone(),
            Value::Object(table) if table.len() == 1 => table.keys().next().cloned().unwrap_or_default(),
            other => {
                return Err(D::Error::custom(format!(
                    "a layer is its name, or one name with its settings, as in {{\"linear\": 10}}; found {other}"
                )));
            }
        };
        let settings = value.get(&name);
        match name.as_str() {
            "dropout" => Ok(Self::Inactive),
            "batchnorm" => {
                let eps = match settings {
                    None => None,
                    Some(settings) => {
                        BatchNormSettings::deserialize(settings.clone()).map_err(D::Error::custom)?.eps
                    }
                };
                Ok(Self::BatchNorm { epsilon: eps.unwrap_or(EPSILON) })
            }
            "layernorm" | "groupnorm" | "instancenorm" => Err(D::Error::custom(format!(
                "the layer `{name}` normalises by each input's own statistics, so that it cannot be folded into another: only \
                 batchnorm with running statistics can"
            ))),
            "softmax" | "log-softmax" | "logsoftmax" => Err(D::Error::custom(format!(
                "the layer `{name}` is left out: outputs are logits, and the likelihood has its own softmax"
            ))),
            _ => LayerSpec::deserialize(value).map(Self::Network).map_err(|error| {
                D::Error::custom(format!("the layer `{name}`: {error}, `dropout` or `batchnorm`"))
            }),
        }
    }
}

impl JsonSchema for CaseLayer {
    fn schema_name() -> Cow<'static, str> {
        "CaseLayer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let network = generator.subschema_for::<LayerSpec>();
        json_schema!({
            "description": "One layer. Its number in the list, counted from 0, is the first part of its tensors' names in \
                            model.safetensors, as in torch.nn.Sequential. The last layer with parameters is the head, and \
                            linear.",
            "anyOf": [
                network,
                { "const": "dropout", "description": "Does nothing when predicting." },
                {
                    "type": "object", "properties": { "dropout": { "type": "number" } }, "required": ["dropout"],
                    "additionalProperties": false, "description": "The same; its rate does not matter.",
                },
                { "const": "batchnorm", "description": "Batch normalisation as in eval(), straight behind a linear or \
                    convolutional layer, into which it is folded: running_mean and running_var, and weight and bias where \
                    there are any." },
                {
                    "type": "object",
                    "properties": { "batchnorm": {
                        "type": "object", "properties": { "eps": { "type": "number", "default": EPSILON } },
                        "additionalProperties": false,
                    } },
                    "required": ["batchnorm"], "additionalProperties": false,
                },
            ],
        })
    }
}

/// The layers of the network, each where it was: what does nothing, or is folded, lets its input pass. What does nothing
/// behind the head is left out.
pub(super) fn network_layers(layers: &[CaseLayer]) -> Result<Vec<LayerSpec>, String> {
    let of = |layer: &CaseLayer| match layer {
        CaseLayer::Network(spec) => spec.clone(),
        CaseLayer::Inactive | CaseLayer::BatchNorm { .. } => LayerSpec::Identity,
    };
    let used = layers
        .iter()
        .rposition(|layer| !matches!(layer, CaseLayer::Inactive | CaseLayer::Network(LayerSpec::Identity)));
    let layers = &layers[..used.map_or(0, |last| last + 1)];
    for (index, layer) in layers.iter().enumerate() {
        if let CaseLayer::BatchNorm { epsilon } = layer {
            folded_into(layers, index)?;
            if !(epsilon.is_finite() && *epsilon >= 0.0) {
                return Err(format!(
                    "layer {index} (batchnorm): eps is {epsilon}, expected a number, 0 or above"
                ));
            }
        }
    }
    Ok(layers.iter().map(of).collect())
}

/// The layer that a normalisation is folded into: the one before it, but for such as do nothing.
fn folded_into(layers: &[CaseLayer], index: usize) -> Result<usize, String> {
    let before = layers[..index]
        .iter()
        .rposition(|layer| !matches!(layer, CaseLayer::Inactive | CaseLayer::Network(LayerSpec::Identity)));
    match before.map(|before| (before, &layers[before])) {
        Some((before, CaseLayer::Network(LayerSpec::Linear(_) | LayerSpec::Conv(_)))) => Ok(before),
        found => {
            let behind = match found {
                Some((_, CaseLayer::Network(spec))) => format!("behind `{}`", spec.name()),
                Some(_) => "behind another batchnorm".to_owned(),
                None => "first".to_owned(),
            };
            Err(format!(
                "layer {index} (batchnorm) comes {behind}: it can be folded exactly only straight behind a linear or conv \
                 layer"
            ))
        }
    }
}

/// Folds every normalisation into its layer: `W' = s W` and `b' = s (b - mean) + bias` with `s = weight / sqrt(var + eps)`,
/// row by row, which gives the same outputs.
pub(super) fn fold(
    layers: &[CaseLayer],
    network: &Network,
    model: &Opened<'_>,
    parameters: &mut [f64],
) -> Result<(), BadInput> {
    for (index, layer) in layers.iter().enumerate() {
        let CaseLayer::BatchNorm { epsilon } = layer else { continue };
        let target = folded_into(layers, index).map_err(|reason| model.bad(&reason))?;
        let mut tensors = network.layout().tensors().iter().filter(|tensor| tensor.layer == target);
        let (Some(weight), Some(bias)) = (tensors.next(), tensors.next()) else { continue };
        let rows = bias.range.len();
        let read = |name: &str, default: f64| {
            let name = format!("{index}.{name}");
            if model.has(&name) { model.numbers(&name, &[rows]) } else { Ok(vec![default; rows]) }
        };
        let required = |name: &str| model.numbers(&format!("{index}.{name}"), &[rows]);
        let (mean, variance) = (required("running_mean")?, required("running_var")?);
        let (scale, shift) = (read("weight", 1.0)?, read("bias", 0.0)?);
        if let Some(row) = variance.iter().position(|variance| variance + epsilon <= 0.0) {
            let reason =
                format!("value {row} of `{index}.running_var` is {}; variances are above 0", variance[row]);
            return Err(model.bad(&reason));
        }
        let width = weight.range.len() / rows;
        for row in 0..rows {
            let factor = scale[row] / (variance[row] + epsilon).sqrt();
            let start = weight.range.start + row * width;
            parameters[start..start + width].iter_mut().for_each(|value| *value *= factor);
            let bias = &mut parameters[bias.range.start + row];
            *bias = factor * (*bias - mean[row]) + shift[row];
        }
    }
    Ok(())
}
