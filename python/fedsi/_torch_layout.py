"""Where the parameters of a module lie in the engine's flat vector: the body, then the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsi._arrays import from_tensor
from fedsi.errors import InputError, NetworkError


@dataclass(frozen=True)
class ModuleTensor:
    """A parameter of the module: its name there, the name the engine knows it by, its shape, its first position in the
    engine's vector, and its first position over all of ``module.parameters()``."""

    name: str
    label: str
    shape: tuple[int, ...]
    start: int
    module_start: int

    @property
    def size(self) -> int:
        """Number of values."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class ChosenGroup:
    """The chosen positions that lie in one tensor: ``within`` are places in the flattened tensor, ``columns`` those in the
    list of chosen positions."""

    tensor: ModuleTensor
    within: torch.Tensor
    columns: torch.Tensor


class ModuleLayout:
    """The parameters that can move, in the engine's order.

    ``called`` are the modules that a forward pass calls, in order; the head is the last of them with parameters of its own,
    unless it is named.
    """

    def __init__(self, module: torch.nn.Module, called: list[str], head: str | None) -> None:
        self.head = _named_head(module, head) if head is not None else _last_called(module, called)
        prefix = f"{self.head}." if self.head else ""
        _refuse_shared_head(module, self.head)
        body: list[Any] = []
        own: list[Any] = []
        position = 0
        for name, parameter in module.named_parameters():
            start, position = position, position + parameter.numel()
            if not parameter.requires_grad:
                continue
            if not parameter.is_floating_point():
                raise NetworkError(
                    f"the parameter `{name}` is {parameter.dtype}: expected real floating point numbers; "
                    "set requires_grad=False where it does not train"
                )
            # The head is a leaf: what begins with its name is its own.
            is_head = name.startswith(prefix) if prefix else "." not in name
            (own if is_head else body).append((name, tuple(parameter.shape), start))
        self.size = 0
        self.tensors: list[ModuleTensor] = []
        for name, shape, start in [*body, *own]:
            # The engine tells layers apart by what precedes the last dot; parameters of the module itself have no dot.
            label = name if "." in name else f"module.{name}"
            self.tensors.append(ModuleTensor(name, label, shape, self.size, start))
            self.size += self.tensors[-1].size
        self.head_start = sum(tensor.size for tensor in self.tensors[: len(body)])
        self.all_size = position
        self.device = next(module.parameters()).device

    def values(self, module: torch.nn.Module, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The parameters of a copy of the module, in the engine's order."""
        named = dict(module.named_parameters())
        values = np.empty(self.size, dtype)
        for tensor in self.tensors:
            values[tensor.start : tensor.start + tensor.size] = from_tensor(named[tensor.name]).reshape(-1)
        return values

    def load(self, module: torch.nn.Module, values: NDArray[Any]) -> None:
        """Writes values of the engine's order into a copy of the module."""
        named = dict(module.named_parameters())
        # Read-only arrays come from native code; torch only reads them here.
        flat = torch.from_numpy(values if values.flags.writeable else values.copy())
        with torch.no_grad():
            for tensor in self.tensors:
                own = flat[tensor.start : tensor.start + tensor.size]
                named[tensor.name].copy_(own.reshape(tensor.shape))

    def groups(self, positions: NDArray[np.int64]) -> list[ChosenGroup]:
        """The chosen positions by tensor, tensors without any left out."""
        starts = np.array([tensor.start for tensor in self.tensors], dtype=np.int64)
        owner = np.searchsorted(starts, positions, side="right") - 1
        groups = []
        for index in np.unique(owner):
            tensor = self.tensors[index]
            columns = np.flatnonzero(owner == index)
            within = torch.from_numpy(positions[columns] - tensor.start).to(self.device)
            groups.append(ChosenGroup(tensor, within, torch.from_numpy(columns)))
        return groups

    def engine_indices(self, indices: NDArray[Any]) -> NDArray[np.int64]:
        """Positions over all of ``module.parameters()`` as positions of the engine's vector."""
        _check_positions(indices, self.all_size)
        engine = np.full(self.all_size, -1, dtype=np.int64)
        for tensor in self.tensors:
            engine[tensor.module_start : tensor.module_start + tensor.size] = np.arange(tensor.start, tensor.start + tensor.size)
        found = engine[indices]
        if (found < 0).any():
            fixed = int(np.asarray(indices)[found < 0][0])
            raise InputError(f"position {fixed} is of a parameter with requires_grad=False, which is fixed")
        return found

    def module_indices(self, indices: NDArray[Any]) -> NDArray[np.int64]:
        """The inverse of :meth:`engine_indices`."""
        _check_positions(indices, self.size)
        module = np.empty(self.size, dtype=np.int64)
        for tensor in self.tensors:
            module[tensor.start : tensor.start + tensor.size] = np.arange(tensor.module_start, tensor.module_start + tensor.size)
        return module[indices]


def _check_positions(indices: NDArray[Any], size: int) -> None:
    if indices.dtype.kind not in "iu" or indices.size and (indices.min() < 0 or indices.max() >= size):
        raise InputError(f"expected positions from 0 to {size - 1} as whole numbers, found {indices.dtype} {indices}")


def _moving(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of the module itself that train."""
    return [parameter for parameter in module.parameters(recurse=False) if parameter.requires_grad]


def _has_parts(module: torch.nn.Module) -> bool:
    """Whether submodules have parameters that train."""
    return any(_moving(part) for part in module.modules() if part is not module)


def _named_head(module: torch.nn.Module, head: str) -> str:
    candidates = [name for name, part in module.named_modules() if _moving(part) and not _has_parts(part)]
    if head not in candidates:
        known = dict(module.named_modules())
        reason = (
            "there is no such submodule"
            if head not in known
            else "its parameters belong to submodules of it, and the head is one layer"
            if _has_parts(known[head])
            else "it has no parameters that train"
        )
        raise NetworkError(f"head {head!r}: {reason}; expected one of {', '.join(candidates) or 'none'}")
    return head


def _last_called(module: torch.nn.Module, called: list[str]) -> str:
    parts = dict(module.named_modules())
    leaves = [name for name, part in parts.items() if _moving(part) and not _has_parts(part)]
    if not leaves:
        if any(parameter.requires_grad for parameter in module.parameters()):
            raise NetworkError("no layer of the module can be its head; name one by `head`")
        raise NetworkError("the module has no parameters with requires_grad=True: there is nothing to train or to infer")
    found = [name for name in called if name in leaves]
    return found[-1] if found else leaves[-1]


def _refuse_shared_head(module: torch.nn.Module, head: str) -> None:
    own = {id(parameter): name for name, parameter in module.get_submodule(head).named_parameters(recurse=False)}
    for name, part in module.named_modules():
        if part is module.get_submodule(head):
            continue
        for local, parameter in part.named_parameters(recurse=False):
            if id(parameter) in own:
                shared = ".".join(filter(None, [name, local]))
                raise NetworkError(
                    f"the head {head!r} shares its {own[id(parameter)]} with `{shared}`: body and head train at different "
                    "times and must have parameters of their own; give the head a copy, or name another one by `head`"
                )
