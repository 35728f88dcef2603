"""Whether two federations came to the same, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from processes import Failed

# What no two federations have in common: their ids and their clocks.
_OF_ONE_RUN = {"federation", "run", "seconds"}


def same_server(one: Path, other: Path) -> None:
    """The servers' shared parameters, what was chosen on data set aside, every site's scores, and the rounds' records."""
    shared = "checkpoint/server.safetensors"
    _same("the shared parameters", tensors(one / shared), tensors(other / shared))
    _same("result.json", _comparable(_json(one / "result.json")), _comparable(_json(other / "result.json")))
    _same("metrics.jsonl", _records(one), _records(other))


def same_site(one: Path, other: Path) -> None:
    """What a site keeps: its personal model and its predictions, tensor by tensor."""
    files = [sorted(str(file.relative_to(path)) for file in path.rglob("*.safetensors")) for path in (one, other)]
    if not files[0]:
        raise Failed(f"{one} holds no model of the site")
    _same(f"the files of {one}", *files)
    for name in files[0]:
        _same(str(one / name), tensors(one / name), tensors(other / name))


def absences(server: Path) -> dict[int, list[int]]:
    """Who did not answer, by round, as the server's records have it."""
    found: dict[int, list[int]] = {}
    for line in (server / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        away = [entry["client"] for entry in record.get("left_out", []) if entry["kind"] in ("dropped", "late")]
        if away:
            found[record["round"]] = sorted(away)
    return found


def tensors(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """The tensors of a safetensors file by name: kind, shape and bytes."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    data = content[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _records(server: Path) -> list[Any]:
    return [_comparable(json.loads(line)) for line in (server / "metrics.jsonl").read_text().splitlines()]


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items() if key not in _OF_ONE_RUN}
    return [_comparable(item) for item in value] if isinstance(value, list) else value


def _same(what: str, one: Any, other: Any) -> None:
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
        one, other = ({key: values.get(key) for key in keys[:3]} for values in (one, other))
    raise Failed(f"{what} differs between Flower and one process: {str(one)[:500]} and {str(other)[:500]}")
