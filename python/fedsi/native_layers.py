"""An ``nn.Sequential`` of layers that the engine has, as the engine writes them down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi import _native

try:
    import torch
    from torch import nn
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("fedsi.native_layers needs PyTorch 2.4 or later: pip install torch") from error


@dataclass(frozen=True)
class NativeLayers:
    """Layers in the engine's words (``[{"linear": 10}, "relu", ...]``, what JSON can hold), and their parameters in float64 in
    the order of ``module.parameters()``, which is the engine's."""

    layers: list[Any]
    parameters: NDArray[np.float64]

    def json(self) -> str:
        """The layers as text, for native code."""
        return json.dumps(self.layers)


class _NotNative(Exception):
    """Why a module has no equivalent."""


def native_layers(module: torch.nn.Module, input_shape: Sequence[int] | None = None) -> tuple[NativeLayers | None, str]:
    """The layers and parameters of a module that the engine can compute itself, or None and the reason why it cannot.

    With ``input_shape`` the engine also checks that the layers fit together on such inputs. Softplus is computed exactly,
    where torch returns x for x above 20: the two differ by less than 3e-9.
    """
    try:
        parts = list(_flattened(module, ""))
        layers = [layer for name, part in parts if (layer := _layer(name, part)) is not None]
        _check_order(parts)
        _check_parameters(module, parts)
    except _NotNative as reason:
        return None, str(reason)
    if input_shape is not None:
        refusal = _native.layers_refusal(json.dumps(layers), [int(side) for side in input_shape])
        if refusal is not None:
            return None, refusal
    values = [parameter.detach().cpu().double().reshape(-1).numpy() for parameter in module.parameters()]
    return NativeLayers(layers, np.concatenate(values)), ""


def _flattened(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The layers of nested sequences, in order."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise _NotNative(f"{_title(name, module)} has forward hooks, which may change its outputs")
    # A class derived from nn.Sequential may compute something else.
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        # `named_children` would leave out a layer that comes twice.
        for child, part in module._modules.items():
            yield from _flattened(part, f"{name}.{child}" if name else child)
        return
    yield name, module


def _title(name: str, module: nn.Module) -> str:
    return f"layer `{name}` ({type(module).__name__})" if name else type(module).__name__


def _layer(name: str, module: nn.Module) -> Any:
    """A layer in the engine's words; None for one that does nothing."""
    translate = _TRANSLATIONS.get(type(module))
    if translate is None:
        raise _NotNative(f"{_title(name, module)} is none of the engine's layers")
    try:
        return translate(module)
    except _NotNative as reason:
        raise _NotNative(f"{_title(name, module)}: {reason}") from None


def _check_order(parts: list[tuple[str, nn.Module]]) -> None:
    active = [(name, part) for name, part in parts if not isinstance(part, _INACTIVE)]
    if not active:
        raise _NotNative("the module has no layers")
    name, last = active[-1]
    if type(last) is not nn.Linear:
        raise _NotNative(f"the last layer must be Linear, found {_title(name, last)}")


def _check_parameters(module: nn.Module, parts: list[tuple[str, nn.Module]]) -> None:
    known: set[int] = set()
    for name, part in parts:
        for local, parameter in part.named_parameters():
            if id(parameter) in known:
                raise _NotNative(f"{_title(name, part)} shares its {local} with another layer")
            if not parameter.requires_grad:
                raise _NotNative(f"{_title(name, part)} has a fixed {local} (requires_grad=False)")
            known.add(id(parameter))
    if not known:
        raise _NotNative("the module has no parameters")


def _square(what: str, sides: Any) -> int:
    """One number for both directions."""
    pair = (sides, sides) if isinstance(sides, int) else tuple(sides)
    if len(set(pair)) != 1:
        raise _NotNative(f"{what} {pair} is not the same in both directions")
    return int(pair[0])


def _linear(layer: nn.Linear) -> Any:
    if layer.bias is None:
        raise _NotNative("bias=False, and the engine's linear layers have a bias")
    return {"linear": layer.out_features}


def _conv(layer: nn.Conv2d) -> Any:
    if layer.bias is None:
        raise _NotNative("bias=False, and the engine's convolutions have a bias")
    if layer.groups != 1:
        raise _NotNative(f"groups={layer.groups}, and the engine's convolutions have one group")
    if _square("dilation", layer.dilation) != 1:
        raise _NotNative(f"dilation={layer.dilation}, and the engine's convolutions have none")
    kernel, stride = _square("kernel_size", layer.kernel_size), _square("stride", layer.stride)
    if layer.padding == "same":
        if kernel % 2 == 0:
            raise _NotNative(f"padding='same' with a kernel of {kernel} pads the sides differently")
        padding = kernel // 2
    else:
        padding = 0 if layer.padding == "valid" else _square("padding", layer.padding)
    if padding and layer.padding_mode != "zeros":
        raise _NotNative(f"padding_mode={layer.padding_mode!r}, and the engine pads with zeros")
    return {"conv": {"out": layer.out_channels, "kernel": kernel, "stride": stride, "padding": padding}}


def _pool(layer: nn.MaxPool2d | nn.AvgPool2d) -> Any:
    if _square("padding", layer.padding) != 0:
        raise _NotNative(f"padding={layer.padding}, and the engine's pooling has none")
    if layer.ceil_mode:
        raise _NotNative("ceil_mode=True, and the engine's windows lie within the image")
    window = _square("kernel_size", layer.kernel_size)
    stride = _square("stride", layer.stride if layer.stride is not None else layer.kernel_size)
    return window if window == stride else {"window": window, "stride": stride}


def _max_pool(layer: nn.MaxPool2d) -> Any:
    if _square("dilation", layer.dilation) != 1:
        raise _NotNative(f"dilation={layer.dilation}, and the engine's pooling has none")
    return {"maxpool": _pool(layer)}


def _average_pool(layer: nn.AvgPool2d) -> Any:
    if layer.divisor_override is not None:
        raise _NotNative(f"divisor_override={layer.divisor_override}, and the engine takes the mean")
    return {"avgpool": _pool(layer)}


def _flatten(layer: nn.Flatten) -> Any:
    if (layer.start_dim, layer.end_dim) != (1, -1):
        raise _NotNative(f"flattens dimensions {layer.start_dim} to {layer.end_dim}, the engine all but the batch")
    return "flatten"


def _gelu(layer: nn.GELU) -> Any:
    if layer.approximate != "none":
        raise _NotNative(f"approximate={layer.approximate!r}, and the engine computes it exactly")
    return "gelu"


def _softplus(layer: nn.Softplus) -> Any:
    if layer.beta != 1 or layer.threshold < 20:
        raise _NotNative(f"beta={layer.beta}, threshold={layer.threshold}: the engine's has beta 1 and no threshold")
    return "softplus"


#: Layers that do nothing when a trained network is evaluated.
_INACTIVE = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)

_TRANSLATIONS: dict[type[nn.Module], Callable[[Any], Any]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _average_pool,
    nn.Flatten: _flatten,
    nn.ReLU: lambda _: "relu",
    nn.LeakyReLU: lambda layer: {"leaky-relu": layer.negative_slope},
    nn.Tanh: lambda _: "tanh",
    nn.Sigmoid: lambda _: "sigmoid",
    nn.SiLU: lambda _: "silu",
    nn.Softplus: _softplus,
    nn.GELU: _gelu,
    **{inactive: lambda _: None for inactive in _INACTIVE},
}
