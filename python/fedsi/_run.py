"""Runs: :func:`run`, :func:`resume`, :func:`open`, and what can be run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedsi import _native
from fedsi._compare import Comparison
from fedsi._progress import Progress, observer
from fedsi._result import Result
from fedsi.errors import FolderError, InputError

PathLike = str | os.PathLike[str]
#: A dict (nested, or with dotted keys), or the path of a TOML file.
Config = Mapping[str, Any] | PathLike | None

# The flags of the command line that are short for a key.
_SHORT = {
    "dataset": "data__dataset",
    "size": "data__size",
    "data_dir": "data__dir",
    "clients": "partition__clients",
    "participants": "federation__participants",
    "epochs": "training__epochs",
    "lr": "training__learning_rate",
    "state_dir": "checkpoint__state_dir",
}


def full_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword settings under the names of keys: ``dataset`` is short for ``data__dataset``, and so on."""
    named = {_SHORT.get(key, key): value for key, value in settings.items()}
    if len(named) != len(settings):
        both = next(key for key in settings if key in _SHORT and _SHORT[key] in settings)
        raise InputError(f"{both} and {_SHORT[both]} are the same setting: give one of them")
    return named


def plain(config: Config) -> dict[str, Any] | PathLike | None:
    """A config as native code takes it."""
    return dict(config) if isinstance(config, Mapping) else config


def path_of(what: str, folder: Any, expected: str = "the path of a folder") -> str:
    """A path as text."""
    if not isinstance(folder, (str, os.PathLike)):
        raise InputError(f"{what}: expected {expected}, found {folder!r}")
    return os.fsdecode(folder)


def folder_of(out: Any, name: str) -> tuple[str | None, tempfile.TemporaryDirectory[str] | None]:
    """The folder that ``out`` says, and where it is False the temporary one that it is in."""
    if out is False:
        temporary = tempfile.TemporaryDirectory(prefix="fedsi-")
        return os.path.join(temporary.name, name), temporary
    if out is None:
        return None, None
    return path_of("out", out, "the path of a folder, None, or False for a temporary folder"), None


def flag(what: str, value: Any) -> None:
    """Refuses what is neither true nor false."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{what}: expected True or False, found {value!r}")


def run(
    config: Config = None,
    *,
    out: PathLike | Literal[False] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
    **settings: Any,
) -> Result:
    """Trains a federation, evaluates every client's personal model and writes the run's folder and report.

    The same settings and seed give the same bits as ``fedsi run`` on the command line, and the same files.

    Parameters
    ----------
    config
        Settings as a dict (nested, or with dotted keys), or the path of a TOML file. What is not set has the default
        of the method and the dataset; :func:`fedsi.config` shows all of it.
    out
        The run's folder. None: ``runs/METHOD-DATASET-SIZE-sSEED`` below the working directory, with a number appended
        where that is taken, so that no result is lost. False: a temporary folder that is removed with the
        :class:`Result` (and where the run is stopped, with it).
    resume
        Where ``out`` holds a run of these settings: go on with it, or open it where it is complete. A cell that is run
        again then costs nothing.
    overwrite
        Replace the run in ``out``.
    progress
        A function of (round, rounds, record), called after each round; True for a line on stderr; False for nothing.
        None: a line in a terminal or notebook. What the function raises stops the run and is raised here.
    **settings
        Single settings, which win over ``config``. ``__`` stands for the dot of a key: ``fedsi__modes=2`` is
        ``fedsi.modes``. Short names as on the command line: ``dataset``, ``size``, ``data_dir``, ``clients``,
        ``participants``, ``epochs``, ``lr``, ``state_dir``.

    The work is done without the interpreter lock. Ctrl-C stops it after the round, or the client that is evaluated:
    a checkpoint is saved, :class:`KeyboardInterrupt` raised, and :func:`fedsi.resume` goes on from there.
    """
    flag("resume", resume)
    flag("overwrite", overwrite)
    if out is False and (resume or overwrite):
        raise InputError("out=False is a new temporary folder: resume and overwrite need a folder")
    if resume and overwrite:
        raise InputError("resume and overwrite contradict each other: give one of them")
    if resume and out is None:
        raise InputError("resume needs out, the folder that may hold the run")
    target, temporary = folder_of(out, "run")
    folder = _native.run_config(plain(config), full_names(settings), target, bool(resume), bool(overwrite), observer(progress))
    return Result(folder, _temporary=temporary)


def resume(folder: PathLike, *, progress: Progress = None, **settings: Any) -> Result:
    """Goes on with a run that was stopped or killed: the results are those of a run that never stopped, to the bit.

    ``settings`` may be those that change no result, or only its rounding: ``threads``, ``device``, ``data_dir`` where the data was
    moved, ``state_dir``.
    A complete run is opened.
    """
    return Result(_native.resume_run(path_of("folder", folder), full_names(settings), observer(progress)))


def open(folder: PathLike) -> Result | Comparison:  # noqa: A001
    """Opens the folder of a complete run, or of a comparison, by whatever it was made: this package or the command line."""
    path = Path(path_of("folder", folder))
    if (path / "compare.json").is_file():
        return Comparison(path)
    if (path / "compare.toml").is_file():
        raise FolderError(
            f"the comparison in {path} is not complete: it has no compare.json; the same call of fedsi.compare goes on"
        )
    return Result(path)


def methods() -> list[dict[str, Any]]:
    """Every method: its name, where it comes from, what it shares, what clients keep, what is evaluated."""
    return json.loads(_native.methods_json())


def datasets() -> list[dict[str, Any]]:
    """Every dataset: its name, shape, classes, and whether its files must be there first (``fedsi data fetch``)."""
    return json.loads(_native.datasets_json())


def config(method: str | None = None, dataset: str | None = None, *, config: Config = None, **settings: Any) -> dict[str, Any]:
    """All settings that a run would have: what is given over the defaults of the method and the dataset, checked."""
    named = full_names(settings)
    for key, value in (("method", method), ("data__dataset", dataset)):
        if value is not None:
            named[key] = value
    return json.loads(_native.config_json(plain(config), named))


def schema() -> dict[str, Any]:
    """The JSON schema of configs, with an explanation of every key."""
    return json.loads(_native.schema_json())
