"""What several tests share."""

from __future__ import annotations

from pathlib import Path

import fedsi
import pytest

#: A run of a second or two: the built-in digits, few clients, few rounds.
SMALL = {
    "rounds": 3,
    "seed": 3,
    "threads": 1,
    "partition.clients": 5,
    "partition.train": 8,
    "partition.test": 8,
    "fedsi.subnetwork": 0.005,
}


@pytest.fixture(scope="session")
def small_settings() -> dict[str, object]:
    return dict(SMALL)


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> fedsi.Result:
    """A FedSI run with one network."""
    return fedsi.run(SMALL, out=tmp_path_factory.mktemp("runs") / "fedsi", progress=False)


@pytest.fixture(scope="session")
def values_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of numbers and categories whose target is a number, at three sites."""
    import numpy as np

    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("data") / "values.csv"
    lines = ["id,site,size,kind,price"]
    for row in range(150):
        size, kind = random.normal(3.0, 1.0), random.choice(["old", "new"])
        price = 2.0 * size + (1.5 if kind == "new" else 0.0) + random.normal(0, 0.3)
        lines.append(f"h{row},{'abc'[row % 3]},{size:.4f},{kind},{price:.4f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def values_run(values_table: Path, tmp_path_factory: pytest.TempPathFactory) -> fedsi.Result:
    """A regression on that table."""
    return fedsi.run(
        {
            "data": {
                "dataset": "files",
                "files": {"train": values_table, "target": "price", "client": "site", "id": "id", "task": "regression"},
            },
            "rounds": 4,
        },
        out=tmp_path_factory.mktemp("runs") / "values",
        progress=False,
        threads=1,
    )
