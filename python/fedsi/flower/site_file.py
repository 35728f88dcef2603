"""A site's own settings: its name, the folder of its state, and where its data is.

They are the site's alone. The server says what to learn and from which columns; where files are, only the site says, so that
no server can make a site read another file. A site file is TOML::

    name = "hospital-a"             # how the server and the other sites know it
    folder = "/var/lib/fedsi"       # what the site keeps between rounds
    max_message_mb = 512            # larger messages are refused

    [data.files]
    train = "/data/admissions.csv"  # this site's rows, and nobody else's
    test = ""
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsi.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # Flower brings it.

LOCATIONS = ("data.dir", "data.files.train", "data.files.test")
"""The keys of a config that say where files are: a site gives them, and what a server gives for them is not used."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_MESSAGE_MB = 512


class SiteFileError(ConfigError):
    """A site file that cannot be used. What it says may name paths, which are the site's own affair."""


@dataclass(frozen=True)
class SiteFile:
    """The settings of one site."""

    name: str
    """How the server and the other sites know it."""
    folder: Path
    """The folder of what the site keeps between rounds; each federation has a folder in it."""
    locations: Mapping[str, str] = field(default_factory=dict)
    """Where its data is: values for keys of :data:`LOCATIONS`."""
    max_message_mb: int = _MAX_MESSAGE_MB
    """Larger messages of the server are refused."""

    @property
    def places(self) -> dict[str, str]:
        """Where the site's data is, for every key: nowhere, where the site does not say it, whatever the server says."""
        return {key: self.locations.get(key, "") for key in LOCATIONS}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SiteFile:
        """The site file at ``path``. Relative paths in it are relative to its folder.

        Raises :class:`SiteFileError` with the key that is missing, unknown or of the wrong kind.
        """
        path = Path(path).expanduser()
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SiteFileError(f"the site file {path} cannot be read: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SiteFileError(f"the site file {path} is no TOML: {error}") from error
        return cls.from_dict(content, origin=str(path), base=path.resolve().parent)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, origin: str, base: Path | None = None) -> SiteFile:
        """The same from a dict; ``origin`` is what messages call it. Without ``base`` paths must be absolute."""
        flat = dict(_flatten("", content))
        unknown = sorted(set(flat) - {"name", "folder", "max_message_mb", *LOCATIONS})
        if unknown:
            raise SiteFileError(
                f"{origin}: a site does not set `{unknown[0]}`; it sets name, folder, max_message_mb, {', '.join(LOCATIONS)}"
            )
        limit = flat.get("max_message_mb", _MAX_MESSAGE_MB)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise SiteFileError(f"{origin}: `max_message_mb`: found {limit!r}, expected a whole number of MB, at least 1")
        return cls(
            name=_site_name(flat.get("name"), origin),
            folder=_path(flat, "folder", origin, base),
            locations={key: str(_location(flat, key, origin, base)) for key in LOCATIONS if key in flat},
            max_message_mb=limit,
        )


def checked_name(name: object, origin: str) -> str:
    """The name of a site, if it is one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{origin}: `name`: found {name!r}, expected the site's name: letters, digits, `.`, `_` and `-`, 64 at most"
        )
    return name


def _site_name(name: object, origin: str) -> str:
    try:
        return checked_name(name, origin)
    except ConfigError as error:
        raise SiteFileError(str(error)) from None


def _flatten(prefix: str, content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in content.items():
        pairs += _flatten(f"{prefix}{key}.", value) if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return pairs


def _location(flat: Mapping[str, Any], key: str, origin: str, base: Path | None) -> Path | str:
    # An empty location means that there is none, as in a config.
    return "" if flat[key] == "" else _path(flat, key, origin, base)


def _path(flat: Mapping[str, Any], key: str, origin: str, base: Path | None) -> Path:
    value = flat.get(key)
    if not isinstance(value, str) or value == "":
        raise SiteFileError(f"{origin}: `{key}`: found {value!r}, expected a path")
    path = Path(value).expanduser()
    if path.is_absolute():
        return path
    if base is None:
        raise SiteFileError(f"{origin}: `{key}`: found {value!r}, expected an absolute path")
    return base / path
