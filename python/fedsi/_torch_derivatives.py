"""Derivatives of a module's outputs in chosen parameters.

For linear layers and normalisations by :mod:`fedsi._torch_layers`; for the others by ``torch.func``, all rows and outputs of a
chunk at once; for modules that it cannot follow by a backward pass for each row and output. Measured on one core in float64
(10 outputs): 5% of an MLP's 79,510 parameters take 0.8 ms a row by layers and 3.1 ms by ``torch.func``; 5% of the 19,898 of a
small ResNet 11 ms either way, so that convolutions go by layers only where ``torch.func`` cannot follow the module.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from fedsi import _torch_layers as layers
from fedsi._torch_layout import ChosenGroup

#: Intermediate results at a time, at most: more of them do not fit a processor's caches, and are slower.
LARGEST_CHUNK = 16 * 2**20

#: The same by layers, whose intermediate results are activations.
LARGEST_LAYER_CHUNK = 64 * 2**20


@dataclass
class Settings:
    """How derivatives of one module are computed, with what was learnt about it."""

    chunk_bytes: int
    vmap_works: bool = True
    layers: layers.LayerKnowledge = field(default_factory=layers.LayerKnowledge)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def split(self, module: torch.nn.Module, groups: list[ChosenGroup]) -> tuple[list[ChosenGroup], list[ChosenGroup]]:
        """The groups that go by layers, and the others. All go one way where that takes one backward pass less."""
        layered, others = self.layers.split(module, groups)
        if self.vmap_works and (others or layers.any_convolution(module, layered)):
            return [], groups
        return layered, others

    def vmap_failed(self, error: Exception) -> None:
        """From now on output by output."""
        with self.lock:
            warned, self.vmap_works = not self.vmap_works, False
        if not warned:
            first = str(error).strip().splitlines()
            warnings.warn(
                "torch.func.vmap cannot follow this module, so its derivatives are computed output by output, which is "
                f"slower: {first[0] if first else type(error).__name__}",
                RuntimeWarning,
                stacklevel=5,
            )


def jacobian(
    module: torch.nn.Module,
    rows: torch.Tensor,
    groups: list[ChosenGroup],
    chosen: int,
    width: int,
    settings: Settings,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Outputs ``[N, width]`` and derivatives ``[N, width, chosen]`` of a module with its values loaded, in eval() mode."""
    result = (np.empty((len(rows), width)), np.empty((len(rows), width, chosen)))
    if not len(rows):
        return result
    if not groups:
        with torch.no_grad():
            result[0][:] = module(rows).cpu().numpy()
        return result
    layered, others = settings.split(module, groups)
    while layered:
        try:
            _by_layers(module, rows, layered, result, settings)
            break
        except layers.Unfollowed as unfollowed:
            settings.layers.unfollowed.add(unfollowed.name)
            layered, others = settings.split(module, groups)
    if others:
        _by_rows(module, rows, others, result, settings)
    return result


def _by_layers(
    module: torch.nn.Module,
    rows: torch.Tensor,
    groups: list[ChosenGroup],
    result: tuple[NDArray[np.float64], NDArray[np.float64]],
    settings: Settings,
) -> None:
    outputs, found = result
    columns = [group.columns.numpy() for group in groups]
    largest = max(group.tensor.size for group in groups) * 8
    at_once = max(1, min(settings.chunk_bytes, LARGEST_LAYER_CHUNK) // (settings.layers.bytes_of_row(module, rows[:1]) + largest))
    for start in range(0, len(rows), at_once):
        batch = slice(start, min(start + at_once, len(rows)))
        values, slopes = layers.derivatives(module, rows[batch], groups, range(outputs.shape[1]))
        outputs[batch] = values.cpu().numpy()
        for output, blocks in enumerate(slopes):
            for own, block in zip(columns, blocks):
                _store(found[batch, output], own, block.cpu().numpy())


def _store(target: NDArray[np.float64], columns: NDArray[np.int64], block: NDArray[np.float64]) -> None:
    """Writes columns; those that follow each other as one piece, which is quicker."""
    first, last = int(columns[0]), int(columns[-1])
    if last - first + 1 == len(columns) and (len(columns) < 3 or bool((np.diff(columns) == 1).all())):
        target[..., first : last + 1] = block
    else:
        target[..., columns] = block


def _by_rows(
    module: torch.nn.Module,
    rows: torch.Tensor,
    groups: list[ChosenGroup],
    result: tuple[NDArray[np.float64], NDArray[np.float64]],
    settings: Settings,
) -> None:
    outputs, found = result
    width = outputs.shape[1]
    # Rows and outputs at a time, so that the derivatives in all of the tensors touched fit.
    touched = sum(group.tensor.size for group in groups) * 8
    at_once = max(1, min(settings.chunk_bytes, LARGEST_CHUNK) // (touched * width))
    by_output = max(1, min(width, settings.chunk_bytes // touched))
    columns = torch.cat([group.columns for group in groups]).numpy()
    for start in range(0, len(rows), at_once):
        batch = slice(start, min(start + at_once, len(rows)))
        for first in range(0, width, by_output):
            which = slice(first, min(first + by_output, width))
            values, slopes = _block(module, rows[batch], groups, which, width, settings)
            outputs[batch] = values.detach().cpu().numpy()
            _store(found[batch, which], columns, slopes.detach().cpu().numpy())


def _block(
    module: torch.nn.Module,
    rows: torch.Tensor,
    groups: list[ChosenGroup],
    which: slice,
    width: int,
    settings: Settings,
) -> tuple[torch.Tensor, torch.Tensor]:
    if settings.vmap_works:
        try:
            return _vectorised(module, rows, groups, which, width)
        except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
            result = _one_by_one(module, rows, groups, which)
            # Where that works, the module is sound and vmap is what failed.
            settings.vmap_failed(error)
            return result
    return _one_by_one(module, rows, groups, which)


def _vectorised(
    module: torch.nn.Module, rows: torch.Tensor, groups: list[ChosenGroup], which: slice, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """All rows and outputs of the block at once, by ``torch.func``."""
    named = dict(module.named_parameters())
    moving = {group.tensor.name: named[group.tensor.name].detach() for group in groups}
    basis = torch.eye(width, dtype=rows.dtype, device=rows.device)[which]

    def slopes_of(row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def outputs_of(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.func.functional_call(module, parameters, (row.unsqueeze(0),))[0]

        outputs, pull = torch.func.vjp(outputs_of, moving)
        (slopes,) = torch.func.vmap(pull)(basis)
        chosen = [slopes[group.tensor.name].reshape(len(basis), -1)[:, group.within] for group in groups]
        return outputs, torch.cat(chosen, 1)

    return torch.func.vmap(slopes_of)(rows)


def _one_by_one(
    module: torch.nn.Module, rows: torch.Tensor, groups: list[ChosenGroup], which: slice
) -> tuple[torch.Tensor, torch.Tensor]:
    """A backward pass for every row and output: works for whatever autograd can follow."""
    named = dict(module.named_parameters())
    moving = [named[group.tensor.name] for group in groups]
    values, slopes = [], []
    for row in rows.split(1):
        with torch.enable_grad():
            outputs = module(row)[0]
        wanted = outputs[which]
        own = []
        for index in range(len(wanted)):
            found = torch.autograd.grad(
                wanted[index], moving, retain_graph=index + 1 < len(wanted), allow_unused=True, materialize_grads=True
            )
            own.append(torch.cat([slope.reshape(-1)[group.within] for slope, group in zip(found, groups)]))
        values.append(outputs.detach())
        slopes.append(torch.stack(own))
    return torch.stack(values), torch.stack(slopes)
