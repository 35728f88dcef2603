"""Sequences of layers that the engine has: the same outputs, and a reason for every other module."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from fedsi import _native  # noqa: E402
from fedsi.errors import InputError, NetworkError  # noqa: E402
from fedsi.native_layers import native_layers  # noqa: E402
from torch_zoo import ResidualGroupNorm, cnn, mlp  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (mlp(), (5,)),
        (cnn(), (1, 8, 8)),
        (nn.Linear(4, 3), (4,)),
        (nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(12, 4), nn.SiLU()), nn.Linear(4, 2)), (3, 2, 2)),
        (nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(3, 2)), (2, 7, 7)),
    ],
    ids=["mlp", "cnn", "linear", "nested", "strides"],
)
def test_outputs_are_those_of_torch(module, shape):
    found, reason = native_layers(module, shape)
    assert found is not None, reason
    inputs = torch.randn(150, *shape, dtype=torch.float64)
    expected = module.double().eval()(inputs).detach().numpy()
    # The parameters of float32 are the same numbers in float64.
    outputs = _native.layers_outputs(found.json(), shape, found.parameters, inputs.reshape(150, -1).numpy())
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-12)


def shared() -> nn.Sequential:
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(3, 2))


def fixed() -> nn.Sequential:
    module = mlp()
    module[0].bias.requires_grad_(False)
    return module


def hooked() -> nn.Sequential:
    module = mlp()
    module[1].register_forward_hook(lambda *_: None)
    return module


class Backwards(nn.Sequential):
    def forward(self, x):
        for layer in reversed(self):
            x = layer(x)
        return x


def images(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(3, 2, bias=False)), r"layer `0` \(Linear\): bias=False"),
        (images(nn.Conv2d(1, 2, 3, bias=False)), r"layer `0` \(Conv2d\): bias=False"),
        (images(nn.Conv2d(2, 2, 3, groups=2)), "groups=2"),
        (images(nn.Conv2d(1, 2, 3, dilation=2)), "dilation"),
        (images(nn.Conv2d(1, 2, (3, 2))), r"kernel_size \(3, 2\) is not the same"),
        (images(nn.Conv2d(1, 2, 2, padding="same")), "pads the sides differently"),
        (images(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")), "padding_mode='circular'"),
        (images(nn.MaxPool2d(2, padding=1)), "padding=1"),
        (images(nn.MaxPool2d(2, ceil_mode=True)), "ceil_mode"),
        (images(nn.MaxPool2d(2, dilation=2)), "dilation=2"),
        (images(nn.AvgPool2d(2, divisor_override=3)), "divisor_override"),
        (nn.Sequential(nn.Flatten(2), nn.Linear(3, 2)), "flattens dimensions 2 to -1"),
        (nn.Sequential(nn.Linear(3, 2), nn.GELU("tanh"), nn.Linear(2, 2)), "approximate='tanh'"),
        (nn.Sequential(nn.Linear(3, 2), nn.Softplus(2.0), nn.Linear(2, 2)), "beta=2.0"),
        (nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), r"layer `1` \(Softmax\) is none"),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), r"last layer must be Linear, found layer `1` \(ReLU\)"),
        (nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))), r"layer `0.1` \(LayerNorm\)"),
        (nn.Sequential(), "no layers"),
        (nn.Sequential(nn.Dropout()), "no layers"),
        (ResidualGroupNorm(), "ResidualGroupNorm is none"),
        (Backwards(nn.Linear(3, 3), nn.Linear(3, 3)), "Backwards is none"),
        (shared(), "shares its weight"),
        (fixed(), r"fixed bias \(requires_grad=False\)"),
        (hooked(), "forward hooks"),
    ],
)
def test_the_reason_names_the_layer(module, words):
    found, reason = native_layers(module)
    assert found is None
    assert __import__("re").search(words, reason), reason


def test_layers_that_do_not_fit_the_input():
    assert native_layers(mlp())[0] is not None
    found, reason = native_layers(mlp(), (2, 3, 3))
    assert found is None and "flatten" in reason
    with pytest.raises(NetworkError, match="layers"):
        _native.layers_outputs('["transformer"]', [3], np.zeros(1), np.zeros((1, 3)))
    with pytest.raises(InputError, match="expected 8 parameters"):
        _native.layers_outputs('[{"linear": 2}]', [3], np.zeros(1), np.zeros((1, 3)))
