"""A federation without a transport: the messages of a real one, in one process.

:func:`run_in_process` leads a :class:`Coordinator` and a :class:`Site` for each client through all rounds. Every task and every
answer is bytes, every site has a folder of its own, and nothing else passes between them: what works here works over any
transport. For tests, and to debug an app without one. Another transport calls the same two classes, and before the first round
:func:`describe_site` at every site and :func:`agree` at the server where sites have data of their own.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedsi._native import Coordinator, Site, agree, config_json, describe_site, needs_description, resolve_config
from fedsi.errors import InputError

__all__ = [
    "Coordinator",
    "Exchange",
    "Site",
    "agree",
    "describe_site",
    "needs_description",
    "resolve_config",
    "run_in_process",
]

#: Carries requests to sites and their answers back: ``exchange(kind, requests)`` gets pairs of a client's number and bytes, and
#: returns or yields pairs of a client's number and the bytes that its site answered. Who is missing did not answer.
Exchange = Callable[[str, "list[tuple[int, bytes]]"], Iterable["tuple[int, bytes]"]]


def run_in_process(
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    sites: int | Sequence[str],
    folder: str | os.PathLike[str],
    absent: Mapping[int, Iterable[int]] | None = None,
    network: object | None = None,
    data: Sequence[object] | None = None,
    agreement: bytes | None = None,
    resume: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Runs a whole federation in this process, message by message, and returns what it came to.

    Unless the settings say otherwise there are as many clients as sites, and all take part in every round.

    A site reads files only where it says itself where they are: the places that the config names are given to every site here.

    :param config: settings as a dict, or the path of a TOML file; ``settings`` come on top, with ``__`` for the dot of a key.
    :param sites: how many sites there are, or their names, in the order of clients.
    :param folder: where the server's folder (``server``) and those of the sites (``sites/NAME``) are made.
    :param absent: by round, the clients that do not answer in it.
    :param network: a network of Python for all ends; without one, that of the config.
    :param data: each site's own data, in the order of clients: ``(x_train, y_train, x_test, y_test)``, or a dict of the places
        of its files (``data.files.train``, ``data.files.test``, ``data.dir``); without it each site opens the dataset of the config.
    :param agreement: what the sites agreed on about their data; without it they describe it here, and agree.
    :param resume: go on with the federation in ``folder`` after its newest checkpoint.
    :returns: ``records``, one dict for each round trained by this call; ``result``, as in ``server/result.json``;
        ``federation_id``.
    """
    names = _site_names(sites)
    if data is not None and len(data) != len(names):
        raise InputError(f"data: {len(data)} sites' data for {len(names)} sites")
    absences = _absences(absent)
    root = Path(folder)
    everybody = {"partition__clients": len(names), "federation__participants": len(names)}
    config_toml = resolve_config(config, {**_unless_given(everybody, config), **settings})
    if data is None:
        data = _places(config_toml, config, settings, len(names))
    if agreement is None and (data is not None or needs_description(config_toml)):
        own = data if data is not None else [None] * len(names)
        agreement = agree(
            [describe_site(config_toml, client, name, data=own[client], network=network) for client, name in enumerate(names)]
        )
    with ExitStack() as folders:
        coordinator = folders.enter_context(
            Coordinator(config_toml, names, agreement, root / "server", network=network, resume=resume)
        )
        nodes = [
            folders.enter_context(
                Site(
                    root / "sites" / name,
                    coordinator.federation_id,
                    config_toml,
                    agreement,
                    client,
                    len(names),
                    data=None if data is None else data[client],
                    network=network,
                )
            )
            for client, name in enumerate(names)
        ]

        def exchange(kind: str, requests: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
            # The round at work is the one after those that are complete; scores at the end belong to none.
            away = absences.get(coordinator.round + 1, frozenset()) if kind != "score-test" else frozenset()
            for client, request in requests:
                if client not in away:
                    yield client, nodes[client].perform(request)

        records = []
        while coordinator.round < coordinator.rounds:
            records.append(coordinator.step(exchange))
        result = coordinator.score(exchange)
        return {"records": records, "result": result, "federation_id": coordinator.federation_id}


def _site_names(sites: int | Sequence[str]) -> list[str]:
    """The sites' names: also those of their folders."""
    if isinstance(sites, str) or not isinstance(sites, Sequence):
        try:
            count = operator.index(sites)  # type: ignore[arg-type]
        except TypeError as error:
            raise InputError(f"sites: expected how many sites there are, or a list of their names; found {sites!r}") from error
        if count < 1:
            raise InputError(f"sites: expected 1 or more, found {count}")
        return [f"site-{number}" for number in range(count)]
    names = [str(name) for name in sites]
    for name in names:
        if not name or name in (".", "..") or any(sign in name for sign in "/\\\0") or names.count(name) > 1:
            raise InputError(f"sites: expected names that differ and can be those of folders; found {name!r}")
    return names


def _places(config_toml: str, config: Any, settings: dict[str, Any], sites: int) -> list[object] | None:
    """Where a dataset's folder is, for each site, where the config's dataset has one."""
    data = json.loads(config_json(config, settings))["data"]
    if data["dataset"] == "digits" or needs_description(config_toml):
        return None
    return [{"data.dir": data["dir"]}] * sites


def _absences(absent: Mapping[int, Iterable[int]] | None) -> dict[int, frozenset[int]]:
    try:
        return {operator.index(number): frozenset(map(operator.index, clients)) for number, clients in (absent or {}).items()}
    except (AttributeError, TypeError) as error:
        raise InputError(f"absent: expected the clients that are away by round, as in {{3: [0, 2]}}; found {absent!r}") from error


def _unless_given(settings: dict[str, Any], config: Mapping[str, Any] | str | os.PathLike[str] | None) -> dict[str, Any]:
    """Those settings that a config does not have; a file has them all, or their defaults are meant."""
    if config is not None and not isinstance(config, Mapping):
        return {}
    given = config or {}

    def has(key: str) -> bool:
        section, _, name = key.partition("__")
        inner = given.get(section)
        return f"{section}.{name}" in given or (isinstance(inner, Mapping) and name in inner)

    return {key: value for key, value in settings.items() if not has(key)}
