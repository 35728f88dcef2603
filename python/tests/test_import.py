"""The package without what it does not depend on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fedsi
import pytest

SCRIPT = """
import sys

for name in ("torch", "pandas", "flwr"):
    sys.modules[name] = None
import fedsi
import fedsi.federation
import fedsi.laplace

assert "numpy" in sys.modules
result = fedsi.run(rounds=1, method="fedavg", out=False, progress=False)
assert result.predictions().probabilities.shape[1] == 10
for call, needed in ((lambda: fedsi.TorchNetwork, "torch"), (result.to_pandas, "pandas")):
    try:
        call()
    except ImportError as error:
        assert f"needs {needed}" in str(error), error
    else:
        raise AssertionError(f"{needed} was not needed")
"""


def test_numpy_is_all_that_the_package_needs(tmp_path: Path) -> None:
    paths = [str(Path(fedsi.__file__).parent.parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lapalce'"):
        _ = fedsi.Lapalce
