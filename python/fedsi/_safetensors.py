"""The safetensors format, read from bytes that the engine wrote."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

_KINDS: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}


def parse(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors by name, and the metadata entry ``fedsi``. The arrays are views of ``data`` and cannot be written."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    entry = json.loads(header.pop("__metadata__", {}).get("fedsi", "{}"))
    body = memoryview(data)[8 + size :]
    tensors = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        tensors[name] = np.frombuffer(body[begin:end], dtype=_KINDS[about["dtype"]]).reshape(about["shape"])
    return tensors, entry
