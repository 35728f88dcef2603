#!/usr/bin/env python3
"""Runs the Python code of a documentation page, so that it cannot say what does not work.

    .ci/run_python_blocks.py PAGE.md

Every block fenced by ```python is run, one after the other, in one namespace and one scratch folder that has `examples`
beside it. A block fails where it raises, an assert among it; one after the comment <!-- raises NAME --> must raise an
exception of that name. The interpreter that runs this script runs the blocks: it needs the package `fedsi`.
"""

import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- raises (\w+) -->\n)?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text):
    """(line of the code's first line, exception that is expected, code) of every block."""
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(2)) + 1, found.group(1), found.group(2)


def outcome(code, page, line, namespace):
    """The name of the exception that a block raises, with its traceback; None and nothing where it runs."""
    try:
        # Lines are counted as on the page, so that a traceback names them.
        exec(compile("\n" * (line - 1) + code, page, "exec"), namespace)
    except Exception as error:
        return type(error).__name__, traceback.format_exc()
    return None, ""


def main(page):
    repository = Path(__file__).resolve().parent.parent
    text = Path(page).read_text(encoding="utf-8")
    namespace, count = {"__name__": "__main__"}, 0
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "examples").symlink_to(repository / "examples")
        os.chdir(scratch)
        for line, expected, code in blocks(text):
            begun = time.monotonic()
            raised, trace = outcome(code, page, line, namespace)
            count += 1
            if raised != expected:
                sys.exit(f"{page}, line {line}: raised {raised}, expected {expected}\n{code}\n{trace}")
            print(f"{page}, line {line}: as it says, {time.monotonic() - begun:.1f} s")
        os.chdir(repository)
    if count == 0:
        sys.exit(f"{page}: no block of Python found")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: run_python_blocks.py PAGE.md")
    main(sys.argv[1])
