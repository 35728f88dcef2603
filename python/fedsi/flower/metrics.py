"""The engine's records as Flower's metrics, and as lines of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import MetricRecord


def metric_record(record: Mapping[str, Any], clients: Sequence[str]) -> MetricRecord:
    """The numbers of a record, nested ones with dotted names. What is of one client has the site's name for its number."""
    numbers: dict[str, float | int] = {}
    _collect("", record, clients, numbers)
    return MetricRecord(numbers)


def in_words(record: Mapping[str, Any], clients: Sequence[str]) -> list[str]:
    """What a person wants to know of a round, or of the scores at the end."""
    if "sites" in record:
        width = max((len(name) for name in clients), default=0)
        return [f"{_name(site, clients):{width}}  {_scores(site)}" for site in record["sites"]]
    traffic = record.get("bytes") or {}
    parts = []
    if isinstance(record.get("train_loss"), (int, float)):
        parts.append(f"loss {record['train_loss']:.4f}")
    if "participants" in record:
        parts.append(f"{len(record['participants'])} sites asked")
    if traffic:
        parts.append(f"{traffic.get('up', 0) / 1e6:.2f} MB from sites, {traffic.get('down', 0) / 1e6:.2f} MB to them")
    if isinstance(record.get("epsilon"), (int, float)):
        parts.append(f"epsilon {record['epsilon']:.3g}")
    left_out = [f"{_name(entry, clients)} is left out: {entry.get('reason', '')}" for entry in record.get("left_out") or []]
    skipped = ["the round is skipped: too few usable updates"] if record.get("skipped") else []
    return [*([", ".join(parts)] if parts else []), *left_out, *skipped]


def _name(entry: Mapping[str, Any], clients: Sequence[str]) -> str:
    number = entry.get("client")
    return clients[number] if isinstance(number, int) and number < len(clients) else f"client {number}"


def _scores(site: Mapping[str, Any]) -> str:
    scores = site.get("scores")
    if not scores:
        return f"no scores: {site.get('problem') or 'not told'}"
    shown = [
        f"{name} {scores[name]:.4g}" for name in ("accuracy", "rmse", "nll", "ece") if isinstance(scores.get(name), (int, float))
    ]
    return f"{', '.join(shown)} on {site.get('samples')} rows"


def _collect(prefix: str, value: Any, clients: Sequence[str], numbers: dict[str, float | int]) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _collect(f"{prefix}.{key}" if prefix else str(key), item, clients, numbers)
    elif isinstance(value, (list, tuple)):
        for item in value:
            # An entry of one client; lists of anything else are no metrics.
            if isinstance(item, Mapping) and isinstance(item.get("client"), int) and item["client"] < len(clients):
                rest = {key: part for key, part in item.items() if key != "client"}
                _collect(f"{prefix}.{clients[item['client']]}", rest, clients, numbers)
    elif isinstance(value, bool):
        numbers[prefix] = int(value)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        numbers[prefix] = value
