"""Processes of a test: started with their logs in files, and killed with all they started, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Failed(Exception):
    """The test failed; the message says at what."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Waits until the condition holds, and fails with ``what`` where it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)


# Flower starts apps in sessions of their own: what a process started is known by this variable, which all of them inherit.
_MARK = "FEDSI_LOOPBACK"


class Processes:
    """All processes of a test."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = dict(environment)
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended = False

    def start(self, name: str, command: Sequence[str]) -> None:
        """Starts a process; what it prints is in NAME.log."""
        if self._ended:
            raise Failed(f"{name} is not started: the test is over")
        with open(self.log_file(name), "ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                env={**self._environment, _MARK: self._mark(name)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL to the process and all that it started."""
        process = self._running.pop(name, None)
        if process is None:
            return
        # Twice: one of them may have started another meanwhile.
        for _ in range(2):
            for pid in self.members(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait()

    def members(self, name: str) -> list[int]:
        """The process and all that it started, directly or not."""
        mark = f"{_MARK}={self._mark(name)}".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
            except OSError:
                pass  # It has ended, or is somebody else's.
        return found

    def kill_all(self) -> None:
        """Leaves nothing running."""
        self._ended = True
        for name in list(self._running):
            self.kill(name)

    def exit_status(self, name: str) -> int | None:
        """The exit status of a process that has ended."""
        return self._running[name].poll()

    def run(self, command: Sequence[str], seconds: float = 60.0, cwd: Path | None = None) -> str:
        """Runs a command to its end and returns what it printed; fails where it does."""
        try:
            done = subprocess.run(
                command, env=self._environment, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(command)}: no end within {seconds:g} s") from error
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def _mark(self, name: str) -> str:
        return f"{self._logs}:{name}"

    def log_file(self, name: str) -> Path:
        """The file of what a process prints."""
        return self._logs / f"{name}.log"

    def log(self, name: str) -> str:
        """What a process has printed."""
        file = self.log_file(name)
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
