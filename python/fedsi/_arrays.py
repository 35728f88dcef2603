"""Arguments as the arrays that native code takes: contiguous, of a type it knows, of the shapes that belong together."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedsi.errors import InputError


def from_tensor(value: Any) -> Any:
    """A torch tensor as numpy, on the CPU, bfloat16 (which numpy does not have) as float32; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


def _array(name: str, value: Any) -> np.ndarray:
    value = from_tensor(value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: expected an array of numbers: {error}") from error


def _shape(name: str, array: np.ndarray, dimensions: int, what: str) -> None:
    if array.ndim != dimensions:
        raise InputError(f"{name}: found shape {list(array.shape)}, expected {what}")


def probabilities(value: Any, name: str = "probabilities") -> np.ndarray:
    """Rows x classes in single or double precision; other numbers become double precision."""
    array = _array(name, value)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: expected an array of numbers, found one of {array.dtype}")
    _shape(name, array, 2, "[rows, classes]")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def checked_rows(value: Any, name: str = "probabilities") -> np.ndarray:
    """The same without labels beside them: each row finite, not negative and summing to 1 within 0.001."""
    array = probabilities(value, name)
    if array.shape[1] == 0:
        raise InputError(f"{name}: expected at least one class, found none")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(f"row {row}, class {column}: a probability must be finite and not negative, found {array[row, column]}")
    sums = array.sum(axis=1, dtype=np.float64)
    off = np.abs(sums - 1.0) > 1e-3
    if off.any():
        row = int(np.argmax(off))
        raise InputError(f"row {row}: probabilities must sum to 1 within 0.001, found {sums[row]}")
    return array


def whole(value: Any, name: str, rows: int | None = None) -> np.ndarray:
    """Whole numbers of any type, one a row, as int64."""
    array = _array(name, value)
    _shape(name, array, 1, "[rows]")
    if array.dtype.kind == "f" and array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name}: expected whole numbers, found {array.dtype}; give them as an array of integers")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        row = int(np.argmax(array))
        raise InputError(f"{name}, row {row}: found {array[row]}, expected a number below 2^63")
    same_length(name, array, rows)
    return np.ascontiguousarray(array, dtype=np.int64)


def numbers(value: Any, name: str, rows: int | None = None) -> np.ndarray:
    """Numbers, one a row, as float64."""
    array = _array(name, value)
    _shape(name, array, 1, "[rows]")
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}: expected an array of numbers, found one of {array.dtype}")
    same_length(name, array, rows)
    return np.ascontiguousarray(array, dtype=np.float64)


def matrix(value: Any, name: str) -> np.ndarray:
    """Rows x outputs as float64; one number a row is one output."""
    array = _array(name, value)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: expected an array of numbers, found one of {array.dtype}")
    if array.ndim == 1:
        array = array[:, None]
    _shape(name, array, 2, "[rows] or [rows, outputs]")
    return np.ascontiguousarray(array, dtype=np.float64)


def finite(array: np.ndarray, what: str) -> None:
    """Refuses NaN and infinity in a matrix of rows x outputs."""
    bad = ~np.isfinite(array)
    if bad.any():
        row, output = np.argwhere(bad)[0]
        raise InputError(f"row {row}, output {output}: {what} must be finite, found {array[row, output]}")


def truths(value: Any, name: str, rows: int | None = None) -> np.ndarray:
    """Whether something holds, one a row."""
    array = _array(name, value)
    _shape(name, array, 1, "[rows]")
    if array.dtype != np.bool_:
        raise InputError(f"{name}: expected true or false, found {array.dtype}")
    same_length(name, array, rows)
    return np.ascontiguousarray(array)


def same_length(name: str, array: np.ndarray, rows: int | None) -> None:
    """Refuses an array that does not have an entry a row."""
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: found {len(array)} entries, expected {rows}, one a row")


def named(name: str, value: Any, rows: int | None = None) -> np.ndarray:
    """Names or numbers of whom each row belongs to, none of them missing."""
    if isinstance(value, (list, tuple)) and any(_is_missing(one) for one in value):
        # Before numpy turns None and NaN among texts into the texts "None" and "nan".
        array = np.empty(len(value), dtype=object)
        array[:] = value
    else:
        array = _array(name, value)
    _shape(name, array, 1, "[rows]")
    same_length(name, array, rows)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind == "O":
        missing = np.fromiter((_is_missing(one) for one in array), dtype=bool, count=len(array))
    else:
        return array
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"{name}, row {row}: found {array[row]}, expected a name or a number; every row belongs to somebody")
    return array


def _is_missing(value: Any) -> bool:
    # NaN and NaT are unequal to themselves; whether pandas.NA is, is itself NA.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def distinct(name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different names in ascending order, and for each row the number of its own among them."""
    try:
        names, numbers_ = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputError(f"{name}: expected names or numbers, not both: {error}") from error
    return names, numbers_.reshape(-1).astype(np.int64)


def grouped(clients: Any, rows: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Clients of any names: an order in which each client's rows come one after another (None: they do already), the
    clients' numbers in that order, and their names by number."""
    array = named("clients", clients, rows)
    names, numbers_ = distinct("clients", array)
    changes = int(np.count_nonzero(np.diff(numbers_))) + 1 if rows else 0
    if changes <= len(names):
        return None, numbers_, names
    order = np.argsort(numbers_, kind="stable")
    return order, numbers_[order], names
