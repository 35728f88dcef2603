"""Data on its way into a posterior, and results on their way back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsi._arrays import from_tensor
from fedsi.errors import InputError

#: Values of the inputs that are predicted at a time: 32 MiB of float64.
BLOCK_VALUES = 1 << 22


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any, what: str = "data") -> NDArray[Any]:
    """A tensor, an array or nested lists as numpy, on the CPU; bfloat16, which numpy does not have, as float32."""
    if is_tensor(value):
        return from_tensor(value)
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{what}: expected an array of numbers, its rows of equal length: {error}") from error


def numbers(what: str, value: Any) -> NDArray[np.float64]:
    """Floating point or whole numbers as float64."""
    array = as_array(value, what)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what}: expected numbers, found {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _is_pair_of_arrays(data: Any) -> bool:
    return isinstance(data, (tuple, list)) and len(data) == 2 and all(hasattr(part, "shape") for part in data)


def collect(what: str, data: Any, targets: Any = None) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Inputs ``[N, ...]`` in float64 and targets, from two arrays, from a pair of them, or from any iterable of batches
    ``(x, y)``, which is gone through once."""
    if targets is not None:
        x, y = numbers(f"{what} inputs", data), as_array(targets, f"{what} targets")
    elif _is_pair_of_arrays(data):
        x, y = numbers(f"{what} inputs", data[0]), as_array(data[1], f"{what} targets")
    elif isinstance(data, Iterable) and not hasattr(data, "shape"):
        inputs, labels = [], []
        for place, batch in enumerate(data):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise InputError(
                    f"{what} data: batch {place} is {type(batch).__name__}, expected a pair (x, y) of inputs and targets"
                )
            inputs.append(numbers(f"{what} inputs of batch {place}", batch[0]))
            labels.append(as_array(batch[1], f"{what} targets of batch {place}"))
            _check_batch(what, place, inputs, labels)
        if not inputs:
            raise InputError(f"{what} data: found no batch, expected at least one pair (x, y)")
        x, y = np.concatenate(inputs), np.concatenate(labels)
    else:
        raise InputError(
            f"{what} data: found {type(data).__name__}, expected inputs and targets as arrays or tensors, or an iterable of "
            "batches (x, y) such as a DataLoader"
        )
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y):
        raise InputError(
            f"{what} data: inputs of shape {list(x.shape)} and targets of shape {list(y.shape)}: expected one row of inputs "
            "and one target for each sample"
        )
    if len(x) == 0:
        raise InputError(f"{what} data: found no sample, expected at least one")
    return x, y


def _check_batch(what: str, place: int, inputs: list[NDArray[Any]], labels: list[NDArray[Any]]) -> None:
    """Refuses a batch that cannot stand below the first one."""
    x, y = inputs[-1], labels[-1]
    if x.ndim < 1 or y.ndim < 1 or len(x) != len(y):
        raise InputError(
            f"{what} data: batch {place} has inputs of shape {list(x.shape)} and targets of shape {list(y.shape)}: expected "
            "one row of inputs and one target for each sample"
        )
    for name, found, first in (("inputs", x, inputs[0]), ("targets", y, labels[0])):
        if found.shape[1:] != first.shape[1:]:
            sides = ", ".join(map(str, ("N", *first.shape[1:])))
            raise InputError(
                f"{what} {name}: batch {place} has the shape {list(found.shape)}, expected [{sides}] as in batch 0; pad or "
                "resize samples so that all have one shape"
            )


def target_arguments(what: str, targets: NDArray[Any], outputs: int, classification: bool) -> dict[str, Any]:
    """Targets as the native code takes them: ``labels`` or ``values``."""
    if classification:
        if targets.dtype.kind not in "iu" or targets.ndim != 1:
            raise InputError(
                f"{what} targets: found {targets.dtype} of shape {list(targets.shape)}, expected class labels: whole numbers "
                "from 0, one for each sample"
            )
        return {"labels": np.ascontiguousarray(targets, dtype=np.int64)}
    values = numbers(f"{what} targets", targets)
    if values.ndim == 1 and outputs == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != outputs:
        raise InputError(
            f"{what} targets: found the shape {list(targets.shape)}, expected [{len(targets)}, {outputs}]: a value for each "
            "output of the network"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise InputError(f"{what} targets: row {row} is not finite; leave out samples without a target")
    return {"values": values}


def blocks(x: Any) -> Iterator[NDArray[np.float64]]:
    """Inputs in float64, some rows at a time; one empty block where there are none."""
    if not hasattr(x, "shape"):
        x = as_array(x, "inputs")
    if len(x.shape) < 2:
        raise InputError(f"inputs: found the shape {list(x.shape)}, expected [N, ...]: a row for each sample")
    rows = max(1, BLOCK_VALUES // max(1, int(np.prod(x.shape[1:]))))
    for start in range(0, max(1, x.shape[0]), rows):
        yield numbers("inputs", x[start : start + rows])


def returner(x: Any) -> Callable[[NDArray[Any]], Any]:
    """How results go back to whoever gave ``x``: torch tensors on its device where it is one, else numpy arrays; in its
    floating point type, float64 where it has none."""
    if is_tensor(x):
        torch = sys.modules["torch"]
        dtype = x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float64
        return lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device=x.device, dtype=dtype)
    found = getattr(x, "dtype", None)
    kept = found if found in (np.dtype(np.float32), np.dtype(np.float64)) else np.dtype(np.float64)
    return lambda array: array.astype(kept, copy=False)
