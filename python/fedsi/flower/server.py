"""The ServerApp of a federation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsi.flower.settings import ServerSettings
from fedsi.flower.strategy import FedsiStrategy


def server_app(*, network: Callable[[Context], Any] | None = None) -> ServerApp:
    """The server of a federation, told by the run config what to do (see :class:`ServerSettings`).

    ``network`` makes a ``fedsi.TorchNetwork``, the same as at the sites, where the network is not one of the config's.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        settings = ServerSettings.from_run_config(context.run_config, run=context.run_id)
        FedsiStrategy(settings, network=network(context) if network is not None else None).start(grid)

    return app
