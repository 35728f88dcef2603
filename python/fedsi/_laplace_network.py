"""The network of a posterior: the engine's own layers where it has them, else any torch module."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi.errors import InputError, NetworkError


@dataclass(frozen=True)
class ParameterTensor:
    """A parameter of the module: name, shape, and its first position over all of ``module.parameters()``."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Number of values."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def positions(self) -> NDArray[np.int64]:
        """Its positions."""
        return np.arange(self.start, self.start + self.size)


class PosteriorNetwork:
    """A module, frozen as it was, in the form that native code takes, with both orders of its parameters.

    Users count positions over all of ``module.parameters()``. The engine has an order of its own, in which the head comes
    last and fixed parameters do not appear.
    """

    def __init__(
        self, module: Any, input_shape: tuple[int, ...], *, last_layer: str | None, chunk_bytes: int, native: bool | None
    ) -> None:
        from fedsi.native_layers import native_layers

        self.input_shape = input_shape
        self.tensors = tensors_of(module)
        # A copy: training that goes on, or buffers that change, do not reach the posterior.
        module = copy.deepcopy(module).eval()
        found, reason = native_layers(module, input_shape) if native is not False else (None, "not asked for")
        if found is None and native:
            raise NetworkError(f"the model cannot run natively: {reason}")
        if found is not None:
            _check_inputs(module, input_shape)
        self.is_native = found is not None
        #: Why the engine's own layers are not used; empty where they are.
        self.reason = reason
        if found is not None:
            self.engine: Any = (list(input_shape), found.json())
            self.values: NDArray[np.float64] = found.parameters
            self._torch = None
            names = [tensor.name for tensor in self.tensors]
            head = names[-1].rpartition(".")[0]
            if last_layer not in (None, head):
                raise InputError(f"last_layer_name {last_layer!r}: the last layer of this model is {head!r}")
            own = [tensor for tensor in self.tensors if tensor.name.rpartition(".")[0] == head]
            self.head_start = own[0].start
            self.names = names
        else:
            from fedsi.torch_network import TorchNetwork

            network = TorchNetwork(module, input_shape, head=last_layer, chunk_bytes=chunk_bytes)
            self.engine = network
            self.values = network.values(np.float64)
            self._torch = network
            self.head_start = network.head_start
            self.names = [name for name, _ in network.tensors()]

    @property
    def size(self) -> int:
        """Parameters of the engine's order."""
        return len(self.values)

    def to_engine(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions over ``module.parameters()`` in the engine's order."""
        return positions if self._torch is None else self._torch.engine_indices(positions)

    def to_module(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The inverse of :meth:`to_engine`."""
        return positions if self._torch is None else self._torch.module_indices(positions)


def _check_inputs(module: Any, input_shape: tuple[int, ...]) -> None:
    """Whether the module takes such inputs; the engine would infer other shapes of its layers from them."""
    import torch

    parameter = next(module.parameters())
    try:
        with torch.no_grad():
            module(torch.zeros((1, *input_shape), dtype=parameter.dtype, device=parameter.device))
    except Exception as error:
        raise NetworkError(f"the model does not take inputs of shape [N, {', '.join(map(str, input_shape))}]: {error}") from error


def tensors_of(module: Any) -> list[ParameterTensor]:
    """The parameters of a module, fixed ones included, in their order."""
    tensors, start = [], 0
    for name, parameter in module.named_parameters():
        tensors.append(ParameterTensor(name, tuple(parameter.shape), start))
        start += parameter.numel()
    return tensors


def named_positions(tensors: list[ParameterTensor], name: str) -> list[ParameterTensor]:
    """The tensors of this name, or of the submodule of this name."""
    found = [tensor for tensor in tensors if tensor.name == name or tensor.name.startswith(f"{name}.")]
    if not found:
        known = ", ".join(tensor.name for tensor in tensors[:12]) + (", ..." if len(tensors) > 12 else "")
        raise InputError(f"{name!r} is no parameter or submodule of the model: expected {known}")
    return found
