"""A grid of nodes in memory and a small engine, for tests of what lies between Flower and the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class FakeCoordinator:
    """Adds up a number of every site, round by round; the second round has a second exchange, as calibration has."""

    def __init__(self, config, clients, agreement, folder, network=None, resume=False) -> None:
        self.config = json.loads(config)
        self.rounds = self.config.get("rounds", 3)
        self.clients = list(clients)
        self.agreement = agreement
        self.folder = Path(folder)
        self.federation_id = "federation-1"
        self.epsilon = None
        self.round, self.total = 0, 0
        if not resume:
            self.folder.mkdir(parents=True)
            (self.folder / "agreement").write_bytes(agreement or b"")
            identity = {"sites": self.clients, "agreement": agreement and "digest"}
            (self.folder / "federation.json").write_text(json.dumps(identity))
        else:
            state = json.loads((self.folder / "state.json").read_text())
            self.round, self.total = state["round"], state["total"]

    def step(self, exchange) -> dict[str, Any]:
        kinds = ["train", "calibrate"] if self.round == 1 else ["train"]
        answered = []
        for kind in kinds:
            requests = [(client, f"{kind} {self.round} {self.total}".encode()) for client in range(len(self.clients))]
            replies = list(exchange(kind, requests))
            answered = [client for client, _ in replies]
            self.total += sum(int(reply) for _, reply in replies)
        if not answered and self.config.get("strict"):
            raise RuntimeError("no usable update")
        self.round += 1
        (self.folder / "state.json").write_text(json.dumps({"round": self.round, "total": self.total}))
        clients = [{"client": client, "loss": 0.5} for client in answered]
        return {"round": self.round, "total": self.total, "skipped": not answered, "clients": clients, "name": "x"}

    def score(self, exchange) -> dict[str, Any]:
        header = json.dumps({"total": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}).encode()
        (self.folder / "checkpoint").mkdir(exist_ok=True)
        shared = len(header).to_bytes(8, "little") + header + self.total.to_bytes(8, "little")
        (self.folder / "checkpoint" / "server.safetensors").write_bytes(shared)
        replies = list(exchange("score", [(client, b"score 0 0") for client in range(len(self.clients))]))
        return {"accuracy": sum(int(reply) for _, reply in replies) / max(1, len(replies))}


class FakeSite:
    """Answers with its number plus how often it has been asked, which it keeps on disk."""

    def __init__(self, folder, federation, config, agreement, client, clients, data, network) -> None:
        self.file = Path(folder) / "asked"
        self.client, self.data = client, data

    def perform(self, request: bytes) -> bytes:
        if self.data == "broken":
            raise ValueError("row 7 holds 'Mr. Smith'")
        asked = int(self.file.read_text()) if self.file.exists() else 0
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(str(asked + 1))
        return str(10 * (self.client + 1) + asked).encode()


def install(monkeypatch) -> None:
    """Puts the small engine where `fedsi.flower` calls the real one."""
    from fedsi.flower import _native_calls as native

    monkeypatch.setattr(native, "resolve_config", lambda settings: json.dumps(dict(settings)))
    monkeypatch.setattr(
        native,
        "coordinator",
        lambda config, clients, agreement, folder, network, resume: FakeCoordinator(
            config, clients, agreement, folder, network, resume
        ),
    )
    monkeypatch.setattr(native, "site", FakeSite)
    monkeypatch.setattr(native, "describe_site", lambda config, client, name, data, network: f"{client} is {name}".encode())
    monkeypatch.setattr(native, "agree", lambda descriptions: b" and ".join(descriptions))
    monkeypatch.setattr(native, "needs_description", lambda config: json.loads(config).get("files", False))


@dataclass
class FakeNode:
    """A node of the grid: what runs there, and whether it is online."""

    node_id: int
    app: ClientApp
    config: dict[str, Any]
    name: str = ""
    online: bool = True
    silent: bool = False
    """It receives messages and never answers."""
    online_until: float = 100.0
    last_activated_at: str = "today"


@dataclass
class FakeGrid(Grid):
    """Flower's grid without Flower: time passes when somebody sleeps, and messages are answered when replies are asked for."""

    nodes: list[FakeNode]
    run_config: dict[str, Any]
    now: float = 0.0
    sent: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)
    events: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    """What happens when."""
    on_train: Callable[[], None] | None = None
    """What happens just before the first round's first message."""

    def __post_init__(self) -> None:
        # Messages take their sender from here; Flower sets it when it starts an app's process.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)
        due = [event for event in self.events if event[0] <= self.now]
        self.events = [event for event in self.events if event[0] > self.now]
        for _, event in due:
            event()

    def set_run(self, run) -> None: ...

    @property
    def run(self):
        return SimpleNamespace(run_id=1)

    def create_message(self, *arguments, **keywords):
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [node.node_id for node in self.nodes if node.online]

    def get_nodes(self):
        return [node for node in self.nodes if node.online]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            if self.on_train is not None and message.metadata.message_type == "train":
                happen, self.on_train = self.on_train, None
                happen()
            message_id = f"message-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = message_id
            self.sent.append(message)
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        replies = []
        for message_id in message_ids:
            message = self.sent[int(message_id.split("-")[1])]
            node = next(node for node in self.nodes if node.node_id == message.metadata.dst_node_id)
            if not node.online:
                reply = Message(Error(5, "node unavailable"), reply_to=message)
            elif node.silent:
                continue
            else:
                context = Context(1, node.node_id, node.config, RecordDict(), dict(self.run_config))
                reply = node.app(message, context)
                self.replies.append(reply)
            replies.append(reply)
        return replies

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError
