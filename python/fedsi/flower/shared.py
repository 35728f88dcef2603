"""The shared parameters that the engine's server saved, as Flower's arrays."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Array, ArrayRecord

from fedsi import _safetensors
from fedsi.errors import FolderError


def shared_arrays(path: Path) -> ArrayRecord:
    """The tensors of a safetensors file by name. Costs their memory. Raises :class:`FolderError` where it is none."""
    try:
        tensors, _ = _safetensors.parse(path.read_bytes())
        return ArrayRecord({name: Array(tensor) for name, tensor in tensors.items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{path} holds no parameters: {error}") from error
