"""Installs the package of this repository into a virtual environment and runs the loopback test there.

python python/tests/flower_loopback/in_venv.py DIR [arguments of run.py]
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path


def main() -> int:
    """The exit status of the test."""
    if len(sys.argv) < 2:
        print("in_venv.py: expected the folder of the virtual environment", file=sys.stderr)
        return 2
    environment, here = Path(sys.argv[1]).resolve(), Path(__file__).resolve().parent
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{here.parent.parent}[flower]"], check=True)
    # Not from the repository's folders, where the package is that of the sources.
    return subprocess.call([python, here / "run.py", *sys.argv[2:]], cwd=environment)


if __name__ == "__main__":
    sys.exit(main())
