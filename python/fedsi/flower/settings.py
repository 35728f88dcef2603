"""The server's settings, from a Flower run config: who takes part, how long to wait, where files are, and the engine's config.

Keys of the engine's config have the prefix ``settings.``, as in ``settings.rounds`` or ``settings.federation.quorum``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsi.errors import ConfigError
from fedsi.flower.site_file import checked_name

Value = bool | int | float | str

_PREFIX = "settings."


@dataclass(frozen=True)
class ServerSettings:
    """What the server of a federation is told."""

    folder: Path
    """What the server writes: metrics, checkpoints, the result."""
    sites: tuple[str, ...] = ()
    """The names of the sites, in the order of their numbers. Empty: whoever joins, in the order of their names."""
    min_sites: int = 1
    """So many sites must have joined before the first round."""
    join_seconds: float = 300.0
    """How long the server waits for sites before the first round."""
    deadline_seconds: float = 600.0
    """Who has not answered so long after a round's requests went out is left out of it."""
    reconnect_seconds: float = 60.0
    """How long, within the deadline, a round waits for sites that are not connected."""
    registered_names: bool = False
    """Whether only nodes that were registered with a name may take part, each under that name."""
    max_message_mb: int = 512
    """Larger replies are refused."""
    resume: bool = False
    """Whether to continue what is in ``folder``."""
    poll_seconds: float = 0.5
    """How often the server asks for replies."""
    simulation_sites: str = ""
    """Of use to simulated sites alone: the folder of their site files."""
    config: Mapping[str, Value] = field(default_factory=dict)
    """The engine's settings, by their dotted keys."""

    @classmethod
    def from_run_config(cls, run_config: Mapping[str, Value], run: int = 0) -> ServerSettings:
        """The settings of a run; ``{run}`` in ``folder`` is replaced by its number.

        Raises :class:`ConfigError` with the key that is missing, unknown or out of range.
        """
        for key in run_config:
            if key not in _KEYS and not key.startswith(_PREFIX):
                raise ConfigError(
                    f"run config: `{key}` is no key; there are {', '.join(_KEYS)}, and `settings.KEY` for every KEY of a fedsi config"
                )
        values: dict[str, Any] = {key: _value(run_config, key, kind) for key, kind in _KEYS.items() if key in run_config}
        sites = _names(values.pop("sites", ""))
        resume = bool(values.get("resume", False))
        settings = cls(
            folder=_folder(values.pop("folder", ""), run, resume),
            sites=sites,
            min_sites=values.pop("min-sites", 0) or max(1, len(sites)),
            config={key[len(_PREFIX) :]: value for key, value in run_config.items() if key.startswith(_PREFIX)},
            **{key.replace("-", "_"): value for key, value in values.items()},
        )
        settings._check()
        return settings

    def _check(self) -> None:
        for key in ("deadline_seconds", "poll_seconds"):
            if not 0 < getattr(self, key) < 1e7:
                raise ConfigError(f"run config: `{_dashed(key)}`: found {getattr(self, key)}, expected seconds above 0")
        for key in ("join_seconds", "reconnect_seconds"):
            if not 0 <= getattr(self, key) < 1e7:
                raise ConfigError(f"run config: `{_dashed(key)}`: found {getattr(self, key)}, expected seconds, 0 or above")
        if self.max_message_mb < 1:
            raise ConfigError(f"run config: `max-message-mb`: found {self.max_message_mb}, expected at least 1")
        if self.min_sites < 1 or (self.sites and self.min_sites > len(self.sites)):
            expected = f"1 up to {len(self.sites)}, the names in `sites`" if self.sites else "at least 1"
            raise ConfigError(f"run config: `min-sites`: found {self.min_sites}, expected {expected}")


_KEYS: dict[str, type] = {
    "folder": str,
    "sites": str,
    "min-sites": int,
    "join-seconds": float,
    "deadline-seconds": float,
    "reconnect-seconds": float,
    "registered-names": bool,
    "max-message-mb": int,
    "resume": bool,
    "poll-seconds": float,
    "simulation-sites": str,
}


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _value(run_config: Mapping[str, Value], key: str, kind: type) -> Value:
    value = run_config[key]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"run config: `{key}`: found {value!r}, expected {words[kind]}")
    return value


def _names(text: Value) -> tuple[str, ...]:
    names = tuple(checked_name(name.strip(), "run config: `sites`") for name in str(text).split(",") if name.strip())
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"run config: `sites`: {twice[0]!r} is there twice")
    return names


def _folder(text: Value, run: int, resume: bool) -> Path:
    text = str(text)
    if resume and "{run}" in text:
        raise ConfigError(
            "run config: `resume` needs the folder of the run to resume; "
            f"name it: --run-config 'resume=true folder=\"{text.replace('{run}', 'NUMBER')}\"'"
        )
    # A ServerApp's working folder is wherever the SuperLink was started, so that a relative path would mean nothing.
    folder = Path(text.replace("{run}", str(run))).expanduser()
    if not folder.is_absolute():
        raise ConfigError(f"run config: `folder`: found {text!r}, expected an absolute path, or one that starts with `~`")
    return folder
