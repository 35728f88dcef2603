"""The ClientApp of a site: one message in, one message out.

A SuperNode starts a new process for every message, so that nothing is kept in memory: the site file, the data and the site's
state are read from disk each time, and what the site keeps is on disk before it answers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsi import __version__
from fedsi.errors import ConfigError, FederationError, FedsiError, MessageError
from fedsi.flower import _native_calls as native
from fedsi.flower.protocol import Reply, Request, pack_reply, unpack_request
from fedsi.flower.site_file import SiteFile

_log = logging.getLogger("flwr")


class _ToldError(Exception):
    """An error whose words were written here, without paths and data, so that the server may read them.

    All other errors, also those of the engine, may quote a path or a row: of them the server learns the class alone.
    """

    def __init__(self, error: FedsiError) -> None:
        super().__init__(str(error))
        self.kind = type(error).__name__


def client_app(
    *,
    site: str | os.PathLike[str] | SiteFile | None = None,
    data: Callable[[Context], Any] | None = None,
    network: Callable[[Context], Any] | None = None,
) -> ClientApp:
    """The client of a federation at one site.

    ``site``: the site file where the node's config names none (``--node-config 'site="/etc/fedsi/site.toml"'``). In Flower's
    simulation sites are called ``site-0``, ``site-1`` and so on, and have the site files of these names in the folder that
    ``simulation-sites`` of the run config names, or none.
    ``data``: a function that returns ``(x_train, y_train, x_test, y_test)`` as arrays, where the data is not files or a dataset
    of the config. ``network``: a function that returns a ``fedsi.TorchNetwork``, the same at all sites and at the server, where
    the network is not one of the config's. Both are called with Flower's context, in every process anew.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        reply = _answer(message, context, site, data, network)
        return Message(pack_reply(reply), reply_to=message)

    app.query()(handle)
    app.train()(handle)
    app.evaluate()(handle)
    return app


def _answer(
    message: Message,
    context: Context,
    site: str | os.PathLike[str] | SiteFile | None,
    data: Callable[[Context], Any] | None,
    network: Callable[[Context], Any] | None,
) -> Reply:
    """What the site answers; where it fails, why, in as many words as the server may know."""
    name, exchange = "unnamed", 0
    try:
        settings = _settings(context, site)
        name = settings.name
        request = _request(message, settings)
        exchange = request.exchange
        payload = _perform(request, settings, context, data, network)
        return Reply(exchange, name, __version__, payload, own_data=data is not None)
    except _ToldError as error:
        _log.exception("fedsi: site %r: %s", name, error)
        return Reply(exchange, name, __version__, error=f"{error.kind}: {error}")
    except Exception as error:
        _log.exception("fedsi: site %r: %s", name, error)
        return Reply(exchange, name, __version__, error=f"{type(error).__name__}: the site's log says why")


def _request(message: Message, settings: SiteFile) -> Request:
    try:
        return unpack_request(message.content, settings.max_message_mb * 1_000_000)
    except MessageError as error:
        # It speaks of what the server sent, and of nothing else.
        raise _ToldError(error) from error


def _perform(
    request: Request,
    settings: SiteFile,
    context: Context,
    data: Callable[[Context], Any] | None,
    network: Callable[[Context], Any] | None,
) -> bytes:
    if request.kind == "join":
        return b""
    opening = request.opening
    if opening is None:
        raise _ToldError(MessageError(f"a request {request.kind!r} that does not say of which federation"))
    if opening.site != settings.name:
        raise _ToldError(
            FederationError(f"the server takes this site for {opening.site!r}, and its site file says {settings.name!r}")
        )
    own_data = settings.places if data is None else data(context)
    own_network = None if network is None else network(context)
    if request.kind == "describe":
        return native.describe_site(opening.config, opening.client, opening.site, own_data, own_network)
    site = native.site(
        settings.folder,
        opening.federation,
        opening.config,
        opening.agreement,
        opening.client,
        opening.clients,
        own_data,
        own_network,
    )
    return site.perform(request.payload)


def _simulated() -> bool:
    """Whether this is a process of Flower's simulation: its ClientApps are run by Ray, those of a SuperNode are not."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _settings(context: Context, site: str | os.PathLike[str] | SiteFile | None) -> SiteFile:
    """The site's settings: what the node's config names, else what the app names, else those of a simulated site."""
    named = context.node_config.get("site", site)
    if isinstance(named, SiteFile):
        return named
    if isinstance(named, (str, os.PathLike)):
        return SiteFile.read(named)
    number = context.node_config.get("partition-id")
    # The rest follows the run config, which is the server's: at a real site it would let the server choose the site's folder.
    if number is None or not _simulated():
        raise _ToldError(
            ConfigError(
                "this node has no site file; name it when the SuperNode is started: --node-config 'site=\"/etc/fedsi/site.toml\"'"
            )
        )
    files = str(context.run_config.get("simulation-sites", ""))
    if files:
        return SiteFile.read(Path(files).expanduser() / f"site-{int(number)}.toml")
    folder = Path(str(context.run_config.get("folder", "")).replace("{run}", str(context.run_id))).expanduser()
    if not folder.is_absolute():
        raise _ToldError(ConfigError("run config: `folder`: expected an absolute path, or one that starts with `~`"))
    return SiteFile(name=f"site-{int(number)}", folder=folder / "sites" / f"site-{int(number)}")
