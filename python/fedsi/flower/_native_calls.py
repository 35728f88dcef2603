"""The engine as this package calls it: its two ends, and what sites agree on before the first round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedsi import _native
from fedsi.flower.conversation import Exchange
from fedsi.flower.settings import Value


class Coordinator(Protocol):
    """The server of a federation."""

    @property
    def round(self) -> int:
        """Rounds that are done."""

    @property
    def rounds(self) -> int:
        """Rounds there are."""

    @property
    def clients(self) -> Sequence[str]:
        """The sites' names, in the order of client numbers."""

    @property
    def federation_id(self) -> str:
        """What no other federation has."""

    @property
    def epsilon(self) -> float | None:
        """The privacy bound so far; None without privacy."""

    def step(self, exchange: Exchange) -> dict[str, Any]:
        """One whole round, and what is recorded of it."""

    def score(self, exchange: Exchange) -> dict[str, Any]:
        """The evaluation of all sites."""


class Site(Protocol):
    """A client of a federation, beside its data."""

    def perform(self, request: bytes) -> bytes:
        """Does what the server asks; what the site keeps is on disk when this returns."""


def resolve_config(settings: Mapping[str, Value]) -> str:
    """These settings over the defaults, checked, as TOML."""
    return _native.resolve_config(dict(settings), None)


def coordinator(
    config: str, clients: Sequence[str], agreement: bytes | None, folder: Path, network: Any, resume: bool
) -> Coordinator:
    """The server, begun in ``folder`` or continued there."""
    return _native.Coordinator(config, list(clients), agreement, str(folder), network=network, resume=resume)


def site(
    folder: Path,
    federation: str,
    config: str,
    agreement: bytes | None,
    client: int,
    clients: int,
    data: Any,
    network: Any,
) -> Site:
    """A site's end, its state read from ``folder`` or begun there. ``data`` is where files are, or arrays."""
    return _native.Site(str(folder), federation, config, agreement, client, clients, data=data, network=network)


def describe_site(config: str, client: int, name: str, data: Any, network: Any) -> bytes:
    """What a site tells of its data before the first round: summaries, never rows."""
    return _native.describe_site(config, client, name, data=data, network=network)


def agree(descriptions: Iterable[bytes]) -> bytes:
    """What the server makes of all sites' descriptions, in the order of their numbers, and sends to all of them."""
    return _native.agree(list(descriptions))


def needs_description(config: str) -> bool:
    """Whether the data of this config is known only when the sites have described theirs."""
    return _native.needs_description(config)
