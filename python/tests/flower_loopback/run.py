"""FedSI and FedPer on Flower, on loopback: TLS, node keys, a node killed in the middle of a round, the server killed and resumed.

    python python/tests/flower_loopback/run.py [--keep DIR] [--scenario NAME ...]

Every federation has a SuperLink and three SuperNodes of its own, and is compared with the same federation in one process, to the last
bit. The fedsi and Flower of this interpreter are tested; `in_venv.py` installs them into a virtual environment first. Everything is on
127.0.0.1, telemetry is off, FLWR_HOME is a temporary folder, and no process is left behind. Exit status 0: all is as it should be.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import compare
import keys
from federation import SITES, Federation
from fedsi.federation import run_in_process
from fedsi.flower.command import write_project
from fedsi.flower.site_file import tomllib
from processes import Failed, wait_until

Say = Callable[[str], None]

HERE = Path(__file__).resolve().parent
LIMIT = 540.0
KILLED = "bergen"
# Messages of a run to a node: 0 asks for its name, 1 and 2 are the first two rounds.
PAUSED_MESSAGE = 2

_federations: list[Federation] = []


def main() -> None:
    """Runs the scenarios side by side."""
    parser = argparse.ArgumentParser(description="The loopback test of fedsi.flower.")
    parser.add_argument("--keep", type=Path, help="keep all files and logs in this folder")
    parser.add_argument("--scenario", nargs="+", choices=sorted(SCENARIOS), default=sorted(SCENARIOS), help="default: all")
    chosen = parser.parse_args()
    threading.Timer(LIMIT, _give_up, (f"not done within {LIMIT:g} s",)).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda found, _: _give_up(f"signal {found}"))
    root = chosen.keep or Path(tempfile.mkdtemp(prefix="fedsi-flower-"))
    root.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    failures: list[str] = []
    threads = [threading.Thread(target=_scenario, args=(name, root / name, started, failures)) for name in chosen.scenario]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{time.monotonic() - started:6.1f} s  {len(threads) - len(failures)} of {len(threads)} scenarios as expected")
    if failures:
        print("\n\n".join(failures), file=sys.stderr)
        print(f"logs: {root}", file=sys.stderr)
    elif chosen.keep is None:
        shutil.rmtree(root, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: the timer still runs.
    os._exit(1 if failures else 0)


def node_killed_and_back_in_the_same_round(federation: Federation, say: Say) -> None:
    """FedSI; the deadline is long, so that the killed node is asked again when it is back, and nobody is missing in any round."""
    run, server, project = _start(federation, say, "fedsi", pause=KILLED, deadline=240.0)
    _kill_and_restart(federation, run, say)
    _finish(federation, run, server, say)
    _compare(federation, server, project, "fedsi", say, expected_absent=False)
    _refuse_a_stranger(federation, say)


def node_killed_and_left_out(federation: Federation, say: Say) -> None:
    """FedPer; the deadline passes while the killed node is away: it is left out, comes back, and has kept its personal part."""
    run, server, project = _start(federation, say, "fedper", pause=KILLED, deadline=45.0)
    _kill_and_restart(federation, run, say)
    _finish(federation, run, server, say)
    _compare(federation, server, project, "fedper", say, expected_absent=True)


def server_killed_and_resumed(federation: Federation, say: Say) -> None:
    """FedPer; the ServerApp is killed after two rounds, and another run resumes its folder."""
    run, server, project = _start(federation, say, "fedper", pause=None, deadline=240.0)
    metrics = server / "metrics.jsonl"
    wait_until("two rounds", 200, lambda: metrics.exists() and metrics.read_text().count("\n") >= 2)
    _kill_serverapp(federation)
    say(f"the server is killed after {metrics.read_text().count(chr(10))} rounds")
    run = federation.run(project, folder=str(server), resume=True, **_keys(240.0))
    _finish(federation, run, server, say)
    _compare(federation, server, project, "fedper", say, expected_absent=False)


SCENARIOS = {
    "node-back": node_killed_and_back_in_the_same_round,
    "node-left-out": node_killed_and_left_out,
    "server-resumed": server_killed_and_resumed,
}


def _scenario(name: str, folder: Path, started: float, failures: list[str]) -> None:
    def say(what: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {name}: {what}", flush=True)

    federation = None
    try:
        folder.mkdir()
        federation = Federation(folder)
        _federations.append(federation)
        SCENARIOS[name](federation, say)
    except Exception as error:
        say("FAILED")
        kind = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
        failures.append(f"{name}: {kind}{error}")
    finally:
        if federation is not None:
            federation.processes.kill_all()


def _start(federation: Federation, say: Say, method: str, pause: str | None, deadline: float) -> tuple[int, Path, Path]:
    """A SuperLink, three SuperNodes, and a run of a project as `fedsi-flower init` writes it."""
    project, server = federation.folder / "digits", federation.folder / "server"
    write_project(project, method=method)
    shutil.copy(HERE / "paused_client_app.py", project / "federation" / "client_app.py")
    federation.start_superlink()
    say("the SuperLink listens")
    federation.register(SITES)
    for site in SITES:
        _start_site(federation, site, pause)
    for site in SITES:
        federation.wait_for_site(site)
    say("three SuperNodes are connected")
    run = federation.run(project, folder=str(server), **_keys(deadline))
    say(f"{method} runs")
    return run, server, project


def _keys(deadline: float) -> dict[str, object]:
    return {"sites": ",".join(SITES), "min-sites": len(SITES), "deadline-seconds": deadline, "registered-names": True}


def _start_site(federation: Federation, site: str, pause: str | None) -> None:
    pauses = {"pause-at": PAUSED_MESSAGE} if site == pause else {}
    federation.start_site(site, count=str(federation.folder / "sites" / f"{site}-messages"), **pauses)


def _kill_and_restart(federation: Federation, run: int, say: Say) -> None:
    paused = federation.folder / "sites" / f"{KILLED}-messages-{run}.paused"
    wait_until("the second round reaches the node to kill", 200, paused.exists)
    federation.processes.kill(KILLED)
    say(f"{KILLED} is killed in the middle of round 2")
    # Flower takes a killed node for online until its heartbeats are missed for a minute, and refuses its key until then:
    # what supervises a SuperNode must start it again and again.
    end = time.monotonic() + 120
    while True:
        before = federation.processes.log(KILLED).count("SuperNode ID:")
        _start_site(federation, KILLED, KILLED)
        wait_until(
            f"{KILLED} starts again",
            60,
            lambda before=before: (
                federation.processes.exit_status(KILLED) is not None
                or federation.processes.log(KILLED).count("SuperNode ID:") > before
            ),
        )
        if federation.processes.exit_status(KILLED) is None:
            break
        federation.processes.kill(KILLED)
        if time.monotonic() > end:
            raise Failed(f"{KILLED} is refused for two minutes after it was killed")
    say(f"{KILLED} is back")


def _kill_serverapp(federation: Federation) -> None:
    """SIGKILL to the process of the ServerApp alone."""
    for pid in federation.processes.members("superlink"):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"flwr-serverapp" in command:
            os.kill(pid, signal.SIGKILL)
            return
    raise Failed("no process of a ServerApp")


def _finish(federation: Federation, run: int, server: Path, say: Say) -> None:
    ended = re.compile(rf"Finished task \d+ of run {run}\b")
    wait_until("the run ends", 300, lambda: ended.search(federation.processes.log("superlink")) is not None)
    if not (server / "result.json").exists():
        raise Failed(f"the run failed:\n{federation.log_of(run)[-4000:]}")
    say(f"the run is {federation.status(run)}")


def _compare(federation: Federation, server: Path, project: Path, method: str, say: Say, expected_absent: bool) -> None:
    absent = compare.absences(server)
    if expected_absent != bool(absent):
        raise Failed(f"absent by round: {absent}, expected {'some' if expected_absent else 'none'}")
    if any(client != SITES.index(KILLED) for clients in absent.values() for client in clients):
        raise Failed(f"absent by round: {absent}, expected nobody but {KILLED}")
    settings = run_settings(project)
    reference = federation.folder / "reference"
    run_in_process(settings, sites=list(SITES), folder=reference, absent=absent)
    compare.same_server(server, reference / "server")
    for site in SITES:
        compare.same_site(_only(federation.folder / "sites" / site), _only(reference / "sites" / site))
    rounds = ", ".join(f"round {number}" for number in absent) or "no round"
    say(f"{method} over Flower is {method} in one process, to the last bit ({KILLED} missing in {rounds})")


def _refuse_a_stranger(federation: Federation, say: Say) -> None:
    keys.write_node_key(federation.folder / "keys", "stranger")
    federation.start_site("stranger")
    wait_until("the unregistered node ends", 60, lambda: federation.processes.exit_status("stranger") is not None)
    if federation.processes.exit_status("stranger") == 0 or "SuperNode ID:" in federation.processes.log("stranger"):
        raise Failed(f"an unregistered node was not refused:\n{federation.processes.log('stranger')[-2000:]}")
    say("a node with an unregistered key is refused")


def run_settings(project: Path) -> dict[str, object]:
    """The engine's settings in a project's pyproject.toml, with what the server adds where they do not say it: all sites take part."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]["settings"]
    return {"partition.clients": len(SITES), "federation.participants": len(SITES), **settings}


def _only(folder: Path) -> Path:
    found = list(folder.iterdir())
    if len(found) != 1:
        raise Failed(f"{folder} holds {[path.name for path in found]}, expected the folder of one federation")
    return found[0]


def _give_up(why: str) -> None:
    print(f"{why}: everything is killed", file=sys.stderr, flush=True)
    for federation in _federations:
        federation.processes.kill_all()
    os._exit(1)


if __name__ == "__main__":
    main()
