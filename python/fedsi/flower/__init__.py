"""Federations of fedsi on Flower: every site a SuperNode, the server a ServerApp, the engine the same as in a simulation.

``client_app()`` and ``server_app()`` make the two apps of a Flower project; ``fedsi-flower init DIR`` writes such a project.
The names are imported when they are used, so that ``fedsi-flower init`` needs no Flower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsi.flower.client import client_app
    from fedsi.flower.protocol import PROTOCOL
    from fedsi.flower.server import server_app
    from fedsi.flower.settings import ServerSettings
    from fedsi.flower.site_file import SiteFile
    from fedsi.flower.strategy import FedsiStrategy

__all__ = ["PROTOCOL", "FedsiStrategy", "ServerSettings", "SiteFile", "client_app", "server_app"]

_MODULES = {
    "PROTOCOL": "protocol",
    "FedsiStrategy": "strategy",
    "ServerSettings": "settings",
    "SiteFile": "site_file",
    "client_app": "client",
    "server_app": "server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fedsi.flower' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"fedsi.flower.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "flwr":
            raise
        raise ImportError(
            "fedsi.flower needs Flower, which is not installed; install it with: pip install 'flwr>=1.41,<1.42'"
        ) from error
    return getattr(module, name)
