//! Activations as kernels name them.

use fedsi_nn::LayerSpec;

/// The name of an activation's struct in `kernels/activation.cuh`; none for other layers.
pub(crate) fn activation_name(spec: &LayerSpec) -> Option<String> {
    let name = match spec {
        LayerSpec::Relu => "Relu",
        LayerSpec::LeakyRelu(slope) => {
            return Some(format!("LeakyRelu<{}>", (*slope as f32).to_bits() as i32));
        }
        LayerSpec::Tanh => "Tanh",
        LayerSpec::Sigmoid => "Sigmoid",
        LayerSpec::Silu => "Silu",
        LayerSpec::Softplus => "Softplus",
        LayerSpec::Gelu => "Gelu",
        LayerSpec::Linear(_)
        | LayerSpec::Conv(_)
        | LayerSpec::MaxPool(_)
        | LayerSpec::AvgPool(_)
        | LayerSpec::Flatten
        | LayerSpec::Identity => return None,
    };
    Some(name.to_owned())
}
