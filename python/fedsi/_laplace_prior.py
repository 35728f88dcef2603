"""Priors as users write them: a number, one for each tensor or submodule, or one for each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi._laplace_data import numbers
from fedsi._laplace_network import ParameterTensor, named_positions
from fedsi.errors import InputError

#: A number, a mapping from names of tensors or submodules, or an array.
PriorSpec = Any


def freeze(what: str, spec: PriorSpec) -> PriorSpec:
    """A copy of a prior in numpy, so that later changes of the user's tensors do not reach it."""
    if isinstance(spec, Mapping):
        if not spec:
            raise InputError(f"{what}: found an empty mapping, expected names of tensors or submodules")
        return {str(name): freeze(f"{what}[{name!r}]", value) for name, value in spec.items()}
    array = numbers(what, spec).copy()
    if not np.isfinite(array).all():
        raise InputError(f"{what}: expected finite numbers, found {array[~np.isfinite(array)].flat[0]}")
    return float(array.reshape(())) if array.size == 1 else array


def positive(what: str, spec: PriorSpec) -> PriorSpec:
    """The same, every number above 0."""
    values = spec.values() if isinstance(spec, dict) else [spec]
    for value in values:
        least = float(np.min(value))
        if least <= 0:
            raise InputError(f"{what}: expected numbers above 0, found {least}")
    return spec


def times(spec: PriorSpec, factor: float) -> PriorSpec:
    """A prior times a number."""
    if isinstance(spec, dict):
        return {name: value * factor for name, value in spec.items()}
    return spec * factor


def spread(
    what: str,
    spec: PriorSpec,
    tensors: list[ParameterTensor],
    chosen: NDArray[np.int64] | None,
    candidates: NDArray[np.int64],
    default: float,
) -> NDArray[np.float64]:
    """A value for each position over ``module.parameters()``.

    An array has a value for each of all parameters, for each of the ``chosen`` ones in their order (None where a rule is
    still to choose them), or for each tensor. A mapping has to name all ``candidates``. Elsewhere it is ``default``.
    """
    total = sum(tensor.size for tensor in tensors)
    if isinstance(spec, float):
        return np.full(total, spec)
    values = np.full(total, np.nan)
    if isinstance(spec, dict):
        for name, value in spec.items():
            own = named_positions(tensors, name)
            if isinstance(value, float):
                for tensor in own:
                    values[tensor.positions] = value
                continue
            size = sum(tensor.size for tensor in own)
            if value.size != size:
                raise InputError(f"{what}[{name!r}]: found {value.size} values, expected 1 or {size}")
            values[np.concatenate([tensor.positions for tensor in own])] = value.reshape(-1)
        missing = np.isnan(values[candidates])
        if missing.any():
            place = int(candidates[missing][0])
            name = next(tensor.name for tensor in tensors if tensor.start <= place < tensor.start + tensor.size)
            raise InputError(f"{what}: says nothing of {name!r}; name it, or a submodule that it belongs to")
        values[np.isnan(values)] = default
        return values
    flat = spec.reshape(-1)
    if flat.size == total:
        return flat.copy()
    if chosen is not None and flat.size == chosen.size:
        values[:] = default
        values[chosen] = flat
        return values
    if flat.size == len(tensors):
        return np.repeat(flat, [tensor.size for tensor in tensors])
    sizes = [f"1, {total} (one for each parameter)"]
    if chosen is not None and chosen.size != total:
        sizes.append(f"{chosen.size} (one for each parameter with a distribution)")
    sizes.append(f"{len(tensors)} (one for each tensor)")
    raise InputError(f"{what}: found {flat.size} values, expected {', '.join(sizes)}")
