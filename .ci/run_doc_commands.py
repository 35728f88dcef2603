#!/usr/bin/env python3
"""Runs the commands of a documentation page, so that it cannot say what does not work.

    .ci/run_doc_commands.py PAGE.md FEDSI

Every block fenced by ```sh is run by bash, one after the other, in one scratch folder that has `examples` beside it and
the binary FEDSI as `fedsi`. A block fails where a command of it does; one after the comment <!-- exits N --> must end with
that exit status. Blocks of other languages (```text, ```toml) are left alone, but for ```toml blocks after the comment
<!-- file NAME -->, which are written to that file first.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- (exits|file) (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text):
    """(line, mark, argument, language, content) of every fenced block."""
    for found in BLOCK.finditer(text):
        mark, argument, language, content = found.groups()
        yield text.count("\n", 0, found.start()) + 1, mark, argument, language, content


def main(page, binary):
    repository = Path(__file__).resolve().parent.parent
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        tools = Path(scratch) / "bin"
        tools.mkdir()
        (tools / "fedsi").symlink_to(Path(binary).resolve())
        folder = Path(scratch) / "work"
        folder.mkdir()
        (folder / "examples").symlink_to(repository / "examples")
        environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        for line, mark, argument, language, content in blocks(Path(page).read_text(encoding="utf-8")):
            if language == "toml" and mark == "file":
                (folder / argument).write_text(content, encoding="utf-8")
            if language != "sh":
                continue
            begun = time.monotonic()
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", content], cwd=folder, env=environment,
                                  capture_output=True, text=True)
            expected = int(argument) if mark == "exits" else 0
            count += 1
            if done.returncode != expected:
                sys.exit(f"{page}, line {line}: exit status {done.returncode}, expected {expected}\n{content}\n"
                         f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
            print(f"{page}, line {line}: as it says, {time.monotonic() - begun:.1f} s")
    if count == 0:
        sys.exit(f"{page}: no block of commands found")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: run_doc_commands.py PAGE.md FEDSI")
    main(*sys.argv[1:])
