"""The command ``fedsi-flower``: ``fedsi-flower init DIR`` writes a Flower project that runs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from fedsi import __version__
from fedsi.errors import ConfigError, FedsiError, FolderError

_ROUNDS = 5
_SITES = 3
_SIMULATION_SITES = " --run-config 'simulation-sites=\"/data/simulated\"'"
_SIMULATION_FILES = """
`/data/simulated` holds `site-0.toml`, `site-1.toml` and so on, each with the name of its file (`site-0`), a folder, and where that
site's rows are.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments, and returns its exit status: 2 for what can be mended before anything is written."""
    parser = argparse.ArgumentParser(prog="fedsi-flower", description="Federations of fedsi on Flower.")
    parser.add_argument("--version", action="version", version=f"fedsi-flower {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser("init", help="write a Flower project that runs, into a new or empty folder")
    init.add_argument("dir", type=Path, metavar="DIR", help="the folder")
    init.add_argument("--method", default="fedsi", help="what to run (fedsi methods lists them); default: %(default)s")
    init.add_argument("--dataset", default="digits", help="digits, mnist, fashion-mnist, cifar-10 or files; default: %(default)s")
    init.add_argument("--torch", action="store_true", help="with a network of your own in torch, and a function for your data")
    chosen = parser.parse_args(arguments)
    try:
        files = write_project(chosen.dir, method=chosen.method, dataset=chosen.dataset, torch=chosen.torch)
    except FedsiError as error:
        print(f"fedsi-flower: {error}", file=sys.stderr)
        return 2
    print(f"{chosen.dir}: {len(files)} files written; README.md there says how to run it, in simulation:")
    print(f"  cd {chosen.dir}")
    print("  export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1")
    site_files = _SIMULATION_SITES if chosen.dataset == "files" and not chosen.torch else ""
    print(f"  flwr run . local --stream --federation-config 'num-supernodes={_SITES} client-resources-num-cpus=1'{site_files}")
    return 0


def write_project(folder: Path, *, method: str = "fedsi", dataset: str = "digits", torch: bool = False) -> list[Path]:
    """Writes the project and returns its files.

    Raises :class:`ConfigError` for a method or dataset that does not exist, and :class:`FolderError` where the folder is not
    empty or cannot be written.
    """
    _check(method, dataset)
    files = _files(_name(folder), method, "your own arrays" if torch else dataset, torch)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FolderError(f"{folder} is not empty: name a folder that is empty or does not exist")
        written = []
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        if isinstance(error, FolderError):
            raise
        raise FolderError(f"{folder} cannot be written: {error.strerror or error}") from error
    return written


def _check(method: str, dataset: str) -> None:
    """The engine's own words for what does not exist. Files are named by the sites, so that they are not looked for here."""
    from fedsi import _native

    settings: dict[str, object] = {"method": method, "data.dataset": dataset}
    if dataset == "files":
        settings |= {"data.files.train": "train.csv", "data.files.target": "target"}
    _native.resolve_config(settings, None)


def _name(folder: Path) -> str:
    """A name that Flower accepts for an app, made of the folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:32].strip("-")
    if not name or not name[0].isalpha():
        raise ConfigError(f"{folder}: the folder's name becomes the app's, and must begin with a letter")
    return name


def _files(name: str, method: str, dataset: str, torch: bool) -> dict[str, str]:
    suffix = "_torch" if torch else ""
    # Not fedsi itself: no index has it, and Flower may install what is named here by its bare name.
    dependencies = ["flwr>=1.41,<1.42", *(["torch>=2.4"] if torch else [])]
    values = {
        "NAME": name,
        "METHOD": method,
        "DATASET": dataset,
        "DEPENDENCIES": ", ".join(f'"{dependency}"' for dependency in dependencies),
        "ROUNDS": str(_ROUNDS),
        "SITES": str(_SITES),
        "SETTINGS": _settings(dataset, torch),
        "LOCATIONS": _locations(dataset, torch),
        "SIMULATION_SITES": _SIMULATION_SITES if dataset == "files" else "",
        "SIMULATION_FILES": _SIMULATION_FILES if dataset == "files" else "",
        "TORCH_FILES": (
            "\n| `federation/network.py`, `federation/data.py` | the network, and where a site's data comes from |"
            if torch
            else ""
        ),
    }
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "site.toml": "site.toml",
        "federation/__init__.py": None,
        "federation/client_app.py": f"client_app{suffix}.py",
        "federation/server_app.py": f"server_app{suffix}.py",
    }
    if torch:
        templates |= {"federation/network.py": "network_torch.py", "federation/data.py": "data_torch.py"}
    return {
        path: _fill(template, values) if template else '"""The two apps of this federation."""\n'
        for path, template in templates.items()
    }


def _settings(dataset: str, torch: bool) -> str:
    if torch:
        return '# Arrays of the sites\' own code, see federation/data.py.\ndata.dataset = "files"\ndata.files.name = "arrays"'
    lines = [f'data.dataset = "{dataset}"']
    if dataset == "files":
        lines += [
            "# What all sites' files have in common; where they are, each site says in its site file.",
            'data.files.target = "outcome"',
            'partition.kind = "natural"',
            "partition.test_fraction = 0.2",
        ]
    return "\n".join(lines)


def _locations(dataset: str, torch: bool) -> str:
    if torch or dataset == "digits":
        return ""
    if dataset == "files":
        return '\n# This site\'s rows, and nobody else\'s.\n[data.files]\ntrain = "/data/train.csv"\ntest = ""'
    return f'\n# The folder that holds {dataset}/, as `fedsi data fetch` fills it.\n[data]\ndir = "/data"'


def _fill(template: str, values: dict[str, str]) -> str:
    text = (resources.files("fedsi.flower") / "template" / f"{template}.txt").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@@{key}@@", value)
    return text.rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
