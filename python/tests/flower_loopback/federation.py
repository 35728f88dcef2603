"""A SuperLink with TLS and node keys and its SuperNodes, on loopback, offline, telemetry off."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keys
from processes import Failed, Processes, free_port, wait_until

SITES = ("aarhus", "bergen", "ghent")


class Federation:
    """The infrastructure of one test: everything it writes is in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        logs = folder / "logs"
        for name in ("keys", "logs", "sites", "flwr"):
            (folder / name).mkdir(parents=True)
        bin_folder = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(folder),
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            # Flower waits a second between two looks for work by default; no other of its waits can be set.
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "OMP_NUM_THREADS": "1",
        }
        self.processes = Processes(environment, logs)
        keys.write_certificates(folder / "keys")
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "lo"\n\n[superlink.lo]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "keys" / "ca.crt"}"\n'
        )

    def start_superlink(self) -> None:
        """Starts the SuperLink and waits until it answers."""
        certificates = self.folder / "keys"
        self.processes.start(
            "superlink",
            [
                "flower-superlink",
                f"--ssl-ca-certfile={certificates / 'ca.crt'}",
                f"--ssl-certfile={certificates / 'server.crt'}",
                f"--ssl-keyfile={certificates / 'server.key'}",
                "--enable-supernode-auth",
                "--host=127.0.0.1",
                f"--port={self.port}",
                "--disable-runtime-dependency-installation",
            ],
        )
        wait_until("the SuperLink starts", 60, lambda: self._runs("superlink") and self._listens())

    def register(self, sites: Sequence[str]) -> None:
        """Makes a node key for each site and registers it under the site's name, all at once: the command takes seconds to start."""
        commands = []
        for site in sites:
            keys.write_node_key(self.folder / "keys", site)
            commands.append(["flwr", "supernode", "register", str(self.folder / "keys" / f"{site}.pub"), "lo", "--name", site])
        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(self.processes.run, commands))

    def start_site(self, site: str, **node_config: object) -> None:
        """Starts the SuperNode of a site, with a site file of its own; what else its config holds is for the test's app."""
        file = self.folder / "sites" / f"{site}.toml"
        if not file.exists():
            file.write_text(f'name = "{site}"\nfolder = "{site}"\n')
        config = {"site": str(file), **node_config}
        self.processes.start(
            site,
            [
                "flower-supernode",
                f"--superlink=127.0.0.1:{self.port}",
                f"--root-certificates={self.folder / 'keys' / 'ca.crt'}",
                f"--auth-supernode-private-key={self.folder / 'keys' / f'{site}.key'}",
                f"--port={free_port()}",
                "--node-config=" + " ".join(f"{key}={json.dumps(value)}" for key, value in config.items()),
            ],
        )

    def wait_for_site(self, site: str) -> None:
        """Waits until a SuperNode is connected."""
        wait_until(
            f"the SuperNode of {site} connects", 60, lambda: self._runs(site) and "SuperNode ID:" in self.processes.log(site)
        )

    def run(self, project: Path, **run_config: object) -> int:
        """Submits a run of the project, and returns its number."""
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in run_config.items())
        out = self.processes.run(["flwr", "run", str(project), "lo", "--run-config", config, "--format", "json"])
        answer = json.loads(out[out.index("{") :])
        if not answer.get("success"):
            raise Failed(f"flwr run: {out}")
        return int(answer["run-id"])

    def status(self, run: int) -> str:
        """How a run is: `flwr run` itself returns 0 also where it fails."""
        out = self.processes.run(["flwr", "list", "lo", "--run-id", str(run), "--format", "json"])
        return str(json.loads(out[out.index("{") :])["runs"][0]["status"])

    def log_of(self, run: int) -> str:
        """What the ServerApp of a run has printed."""
        return self.processes.run(["flwr", "log", str(run), "lo", "--show"])

    def _runs(self, name: str) -> bool:
        status = self.processes.exit_status(name)
        if status is not None:
            raise Failed(f"{name} ended with exit status {status}:\n{self.processes.log(name)[-3000:]}")
        return True

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
