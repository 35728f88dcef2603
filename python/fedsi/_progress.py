"""Progress of runs and comparisons on one line."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from fedsi.errors import InputError

#: ``progress`` of :func:`fedsi.run`: a function of (round, rounds, record), or whether to print a line.
Progress = Callable[[int, int, dict[str, Any]], object] | bool | None


def observer(progress: Progress) -> Callable[[str, int, int, str | None], None] | None:
    """What the engine calls: None where nobody wants to hear anything."""
    if progress is None:
        progress = _is_interactive()
    if progress is False:
        return None
    if progress is True:
        return _Line(sys.stderr).run
    if not callable(progress):
        raise InputError(
            f"progress: expected True, False or a function of (round, rounds, record), found {type(progress).__name__}"
        )
    function = progress

    def call(what: str, done: int, total: int, record: str | None) -> None:
        if what == "round" and record is not None:
            function(done, total, json.loads(record))

    return call


def compare_observer(progress: bool | None) -> Callable[[str, str, int, int], None] | None:
    """The same for a comparison."""
    if progress is None:
        progress = _is_interactive()
    return _Line(sys.stderr).compare if progress else None


def _is_interactive() -> bool:
    """Whether somebody looks on: a terminal, or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Line:
    """One line that is written over, at most ten times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = time.monotonic()
        self._written = 0.0
        self._width = 0
        self._first = 0
        self._lock = threading.Lock()
        self._done = 0
        self._total = 0
        self._ended = 0
        self._jobs = 0

    def run(self, what: str, done: int, total: int, record: str | None) -> None:
        if what == "started":
            self._begun, self._first = time.monotonic(), done
        elif what == "round" and record is not None:
            loss = json.loads(record).get("train_loss")
            shown = "" if loss is None else f", loss {loss:.4f}"
            self._write(f"round {done}/{total}{shown}{self._left(done - self._first, total - done)}", done == total)
        elif what == "evaluated":
            self._write(f"evaluating: client {done}/{total}", done == total)
            if done == total:
                self._end()

    def compare(self, what: str, name: str, first: int, second: int) -> None:
        with self._lock:
            if what == "stage":
                self._begun, self._done, self._total, self._jobs = time.monotonic(), 0, first, second
                self._ended = 0
            elif what == "advanced":
                self._done += first
            elif what == "finished":
                self._ended += 1
            share = self._done / self._total if self._total else 0.0
            left = self._left(self._done, max(self._total - self._done, 0))
            self._write(f"comparing {100 * share:.0f}% ({self._jobs} runs){left}", what == "finished")

    def _left(self, done: int, rest: int) -> str:
        if done <= 0 or rest <= 0:
            return ""
        seconds = (time.monotonic() - self._begun) / done * rest
        return f", {seconds:.0f} s left"

    def _write(self, text: str, last: bool) -> None:
        now = time.monotonic()
        if not last and now - self._written < 0.1:
            return
        self._written = now
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def _end(self) -> None:
        self._stream.write("\n")
        self._stream.flush()
