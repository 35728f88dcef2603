#!/usr/bin/env python3
"""Checks a notebook and runs its code cells, without Jupyter.

    .ci/run_notebook.py NOTEBOOK.ipynb

It must be of nbformat 4.5 or later: cells with unique ids, and committed without outputs or counts. Code cells are run in
order, in one namespace and a scratch folder, as Python code without magics; what the last expression of a cell is, is shown
by its `_repr_html_` where it has one, which must not fail. The interpreter that runs this script runs the cells.
"""

import ast
import json
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


def faults(notebook):
    """What is not as the format says, or as notebooks are committed."""
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4 or notebook.get("nbformat_minor", 0) < 5:
        yield "expected nbformat 4.5 or later"
        return
    if not isinstance(notebook.get("metadata"), dict) or not isinstance(notebook.get("cells"), list):
        yield "expected `metadata` and a list of `cells`"
        return
    seen = set()
    for place, cell in enumerate(notebook["cells"]):
        where = f"cell {place}"
        if cell.get("cell_type") not in ("code", "markdown", "raw"):
            yield f"{where}: unknown kind {cell.get('cell_type')!r}"
        if not ID.match(str(cell.get("id", ""))) or cell["id"] in seen:
            yield f"{where}: expected an id of its own, found {cell.get('id')!r}"
        seen.add(cell.get("id"))
        if not isinstance(cell.get("metadata"), dict):
            yield f"{where}: expected `metadata`"
        source = cell.get("source")
        if not isinstance(source, (str, list)) or (isinstance(source, list) and not all(isinstance(s, str) for s in source)):
            yield f"{where}: expected its source as text"
        if cell.get("cell_type") == "code":
            if cell.get("outputs") != [] or cell.get("execution_count", 0) is not None:
                yield f"{where}: commit notebooks without outputs and counts"
        elif "outputs" in cell or "execution_count" in cell:
            yield f"{where}: only code has outputs"


def run(source, name, namespace):
    """Runs a cell and shows its last expression as a notebook would."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        html = getattr(value, "_repr_html_", None)
        shown = html() if html is not None else repr(value)
        if not isinstance(shown, str):
            raise TypeError(f"the last value shows itself as {type(shown).__name__}, expected text")


def main(path):
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    found = list(faults(notebook))
    if found:
        sys.exit("\n".join(f"{path}: {fault}" for fault in found))
    namespace, count, before = {"__name__": "__main__"}, 0, os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for place, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] != "code":
                continue
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            begun = time.monotonic()
            try:
                run(source, f"cell {place}", namespace)
            except Exception:
                sys.exit(f"{path}, cell {place}:\n{source}\n{traceback.format_exc()}")
            count += 1
            print(f"{path}, cell {place}: runs, {time.monotonic() - begun:.1f} s")
        os.chdir(before)
    if count == 0:
        sys.exit(f"{path}: no code cell found")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: run_notebook.py NOTEBOOK.ipynb")
    main(sys.argv[1])
