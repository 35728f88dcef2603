"""The same bits as the command line. Needs its binary: FEDSI_BINARY=target/debug/fedsi pytest python/tests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import fedsi
import numpy as np
import pytest

BINARY = os.environ.get("FEDSI_BINARY", "")

pytestmark = pytest.mark.skipif(not BINARY, reason="FEDSI_BINARY names no binary of the command line")


def command(*arguments: object) -> str:
    done = subprocess.run([Path(BINARY).resolve(), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("settings", [{}, {"fedsi.modes": 2, "rounds": 4}, {"method": "pfedbayes"}, {"method": "fedper"}])
def test_runs_models_and_predictions(settings: dict, small_settings: dict, tmp_path: Path) -> None:
    settings = small_settings | settings
    flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command("run", *flags, "--out", tmp_path / "theirs", "--quiet")
    theirs = fedsi.open(tmp_path / "theirs")
    ours = fedsi.run(settings, out=tmp_path / "ours", progress=False)
    assert ours.scores == theirs.scores and ours.intervals == theirs.intervals
    for name in ("predictions.safetensors", "predictions.csv", "clients/0.safetensors", "clients/4.safetensors"):
        assert (ours.folder / name).read_bytes() == (theirs.folder / name).read_bytes(), name
    rows = np.random.default_rng(1).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    np.save(tmp_path / "rows.npy", rows)
    told = json.loads(command("predict", "--run", ours.folder, "--client", 1, "--input", tmp_path / "rows.npy", "--json"))
    told = told if isinstance(told, list) else next(value for value in told.values() if isinstance(value, list))
    found = ours.model(1).predict(rows)
    assert [row["strangeness"] for row in told] == found.strangeness.tolist()
    np.testing.assert_array_equal(np.array([row["probabilities"] for row in told], np.float32), found.probabilities)


def test_the_command_line_opens_what_python_wrote(small_run: fedsi.Result) -> None:
    assert str(small_run.report) in command("report", small_run.folder)
