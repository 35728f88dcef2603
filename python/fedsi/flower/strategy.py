"""FedSI, and every other method of the engine, as a Flower strategy: the engine's server draws, admits and aggregates."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsi import __version__
from fedsi.errors import ConfigError, FederationError, FolderError
from fedsi.flower import _native_calls as native
from fedsi.flower.conversation import Conversation
from fedsi.flower.members import Members
from fedsi.flower.metrics import in_words, metric_record
from fedsi.flower.protocol import PROTOCOL, Opening, Request, in_short
from fedsi.flower.settings import ServerSettings
from fedsi.flower.shared import shared_arrays
from fedsi.flower.transport import Transport

_log = logging.getLogger("flwr")

# Files of the engine's server.
_IDENTITY = "federation.json"
_AGREEMENT = "agreement"
_SHARED = "checkpoint/server.safetensors"


class FedsiStrategy(Strategy):
    """A federation of fedsi: ``start`` joins the sites, trains all rounds of the config and scores every site.

    ``network`` is a network of another library (``fedsi.TorchNetwork``) where the config's own is not wanted. Not thread-safe;
    an object runs one federation, once.
    """

    def __init__(self, settings: ServerSettings, network: Any = None) -> None:
        self.settings = settings
        self.network = network
        # What is wrong with the settings is said before anybody is waited for.
        self._config = self._config_for(max(1, len(settings.sites) or settings.min_sites))
        self._coordinator: native.Coordinator | None = None
        self._agreement: bytes | None = None
        self._transport: Transport | None = None
        self._conversation: Conversation | None = None
        self._requests: dict[str, Request] = {}
        self._exchanges = 0
        self._clock: Callable[[], float] = time.monotonic
        self._sleep: Callable[[float], None] = time.sleep

    @property
    def coordinator(self) -> native.Coordinator:
        """The engine's server. Raises :class:`FederationError` before the sites have joined."""
        if self._coordinator is None:
            raise FederationError("the sites have not joined: `start` joins them")
        return self._coordinator

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 0.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Runs the federation to its end.

        The engine has its own initial parameters and settings: of Flower's arguments only ``timeout``, the deadline of a round
        in seconds, has a meaning; ``num_rounds`` may repeat what the settings say. The result holds the shared parameters, the
        metrics of every round, and each site's scores. Raises :class:`FederationError` where too few sites join, or too few
        usable updates come for longer than the settings allow.
        """
        if initial_arrays or train_config or evaluate_config or evaluate_fn:
            raise ConfigError(
                "FedsiStrategy.start: parameters, settings and scores are the engine's: give settings as `settings.KEY` of the run config"
            )
        self.summary()
        members = Members(sites=self.settings.sites, registered_names=self.settings.registered_names)
        self._transport = Transport(
            grid=grid,
            members=members,
            deadline=timeout or self.settings.deadline_seconds,
            reconnect=self.settings.reconnect_seconds,
            limit=self.settings.max_message_mb * 1_000_000,
            poll=self.settings.poll_seconds,
            clock=self._clock,
            sleep=self._sleep,
        )
        try:
            self._join(self._transport)
            if num_rounds not in (0, self.coordinator.rounds):
                raise ConfigError(f"num_rounds: found {num_rounds}, and the config has rounds = {self.coordinator.rounds}")
            return self._run(grid, self._transport)
        finally:
            if self._conversation is not None:
                self._conversation.abandon()

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Messages for the participants that the engine drew; where it is amid a round, for its next exchange."""
        return self._configure(self.coordinator.step, "train")

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Hands the replies to the engine. Returns the round's metrics when the round is done, and before that nothing.

        The parameters stay with the engine: the record of arrays is empty until the end.
        """
        metrics = self._aggregate(replies)
        return (None, None) if metrics is None else (ArrayRecord(), metrics)

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Messages for the sites that the engine wants scored, on their own data."""
        return self._configure(self.coordinator.score, "evaluate")

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Hands the scores to the engine. Returns the result when it is complete, and before that nothing."""
        return self._aggregate(replies)

    def summary(self) -> None:
        """Says in the log what is about to run."""
        settings = self.settings
        _log.info("fedsi %s, protocol %d, folder %s", __version__, PROTOCOL, settings.folder)
        _log.info(
            "  sites: %s; at least %d; a round's deadline: %g s",
            ", ".join(settings.sites) or "whoever joins",
            settings.min_sites,
            settings.deadline_seconds,
        )

    def _run(self, grid: Grid, transport: Transport) -> Result:
        result = Result()
        arrays, config = ArrayRecord(), ConfigRecord()
        coordinator = self.coordinator
        while coordinator.round < coordinator.rounds:
            number = coordinator.round + 1
            _log.info("[ROUND %d/%d]", number, coordinator.rounds)
            metrics = None
            while metrics is None:
                messages = self.configure_train(number, arrays, config, grid)
                _, metrics = self.aggregate_train(number, transport.exchange(self._requests, messages, "train"))
            result.train_metrics_clientapp[number] = metrics
        _log.info("[SCORES]")
        metrics = None
        while metrics is None:
            messages = self.configure_evaluate(coordinator.rounds, arrays, config, grid)
            metrics = self.aggregate_evaluate(coordinator.rounds, transport.exchange(self._requests, messages, "evaluate"))
        result.evaluate_metrics_clientapp[coordinator.rounds] = metrics
        result.arrays = shared_arrays(self.settings.folder / _SHARED)
        _log.info("fedsi: done; the result is in %s", self.settings.folder)
        return result

    def _configure(self, call: Callable[..., dict[str, Any]], kind: str) -> list[Message]:
        if self._conversation is None:
            self._conversation = Conversation(call)
        self._requests = {}
        asked = self._conversation.requests()
        if asked is None:
            return []
        exchange, requests = asked
        coordinator = self.coordinator
        return self._messages(exchange, coordinator.federation_id, coordinator.clients, requests, kind)

    def _messages(
        self, exchange: str, federation: str, sites: Sequence[str], requests: Iterable[tuple[int, bytes]], kind: str
    ) -> list[Message]:
        """Makes the requests of an exchange, and messages for those sites that are connected."""
        transport = self._joined_transport()
        transport.refresh(at_once=True)
        self._exchanges += 1
        self._requests = {}
        for client, payload in requests:
            opening = Opening(federation, self._config, self._agreement, sites[client], client, len(sites))
            self._requests[sites[client]] = Request(exchange, self._exchanges, payload, opening)
        connected = ((site, transport.members.node(site)) for site in self._requests)
        return [transport.message(self._requests[site], node, kind) for site, node in connected if node is not None]

    def _aggregate(self, replies: Iterable[Message]) -> MetricRecord | None:
        transport, conversation = self._joined_transport(), self._conversation
        if conversation is None:
            raise FederationError("replies without requests: the configure function comes first")
        if conversation.outcome is None:
            number = {site: client for client, site in enumerate(self.coordinator.clients)}
            read = (transport.read(message, self._exchanges) for message in replies)
            # In the order of numbers, so that nothing depends on who answered first.
            conversation.answer(sorted((number[reply.site], reply.payload) for reply in read if reply is not None))
            return None
        self._conversation = None
        for line in in_words(conversation.outcome, self.coordinator.clients):
            _log.info("  %s", line)
        return metric_record(conversation.outcome, self.coordinator.clients)

    def _joined_transport(self) -> Transport:
        if self._transport is None:
            raise FederationError("the sites have not joined: `start` joins them")
        return self._transport

    def _join(self, transport: Transport) -> None:
        settings, folder = self.settings, self.settings.folder
        if settings.resume:
            sites, self._agreement = _saved_sites(folder)
            transport.members.settle(sites)
            self._wait_for_sites(transport)
        else:
            _require_unused(folder)
            sites = self._wait_for_sites(transport)
            transport.members.settle(sites)
        self._config = self._config_for(len(sites))
        own_data = (transport.joined[site].own_data for site in sites if site in transport.joined)
        if not settings.resume and (native.needs_description(self._config) or any(own_data)):
            self._agreement = self._agree(transport, sites)
        self._coordinator = native.coordinator(self._config, sites, self._agreement, folder, self.network, settings.resume)
        for site in sites:
            version = transport.joined[site].version if site in transport.joined else None
            _log.info("  site %r: %s", site, f"fedsi {in_short(version)}" if version else "away")
            if version not in (None, __version__):
                _log.warning(
                    "fedsi: %r has fedsi %s and the server %s: they understand each other, and results are those of neither "
                    "version alone; install the same everywhere",
                    site,
                    in_short(version),
                    __version__,
                )

    def _config_for(self, sites: int) -> str:
        """The config of a federation of so many sites, of which all take part in every round unless the settings say otherwise."""
        return native.resolve_config({"partition.clients": sites, "federation.participants": sites, **self.settings.config})

    def _agree(self, transport: Transport, sites: list[str]) -> bytes:
        """Has every site describe its data, and makes of it what all must know."""
        _log.info("fedsi: the sites describe their data")
        messages = self._messages("describe", "none", sites, [(client, b"") for client in range(len(sites))], "query")
        replies = (transport.read(reply, self._exchanges) for reply in transport.exchange(self._requests, messages, "query"))
        descriptions = {reply.site: reply.payload for reply in replies if reply is not None}
        missing = [site for site in sites if site not in descriptions]
        if missing:
            raise FederationError(
                f"{', '.join(missing)} did not describe their data: the log above says why; start again when they can"
            )
        return native.agree([descriptions[site] for site in sites])

    def _wait_for_sites(self, transport: Transport) -> list[str]:
        """The federation's sites, once enough are there."""
        members, settings = transport.members, self.settings
        wanted = len(members.sites)
        begin = transport.clock()
        said: list[str] | None = None
        while True:
            transport.refresh()
            joined, disputed = members.joined(), members.disputed()
            if joined != said:
                _log.info("fedsi: %d sites joined: %s", len(joined), ", ".join(joined) or "none")
                said = joined
            waited = transport.clock() - begin
            enough = len(joined) >= settings.min_sites and not disputed
            # Everybody who can come is there; or the time is over, and enough are.
            complete = enough and (len(joined) == wanted if wanted else len(joined) >= settings.min_sites)
            if complete or (enough and waited >= settings.join_seconds):
                return joined
            if waited >= settings.join_seconds:
                if disputed:
                    raise FederationError(
                        f"two nodes call themselves {disputed[0]!r}: give each site a name of its own in its site file"
                    )
                raise FederationError(
                    f"{len(joined)} sites joined within {settings.join_seconds:g} s ({', '.join(joined) or 'none'}), and at least "
                    f"{settings.min_sites} are needed (`min-sites`): see that their SuperNodes run, and what they log"
                )
            transport.sleep(settings.poll_seconds)


def _require_unused(folder: Path) -> None:
    """Says before sites are waited for that a federation is there. Whether other files may be there, the engine decides."""
    if (folder / _IDENTITY).exists():
        raise FolderError(
            f"{folder} holds a federation already: continue it with `resume=true`, or name another `folder` in the run config"
        )


def _saved_sites(folder: Path) -> tuple[list[str], bytes | None]:
    """The sites of a federation that is resumed, in the order of their numbers, and what they agreed on."""
    try:
        identity = json.loads((folder / _IDENTITY).read_text(encoding="utf-8"))
        agreement = None if identity["agreement"] is None else (folder / _AGREEMENT).read_bytes()
        return [str(site) for site in identity["sites"]], agreement
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{folder} holds no federation that can be resumed: {error}") from error
