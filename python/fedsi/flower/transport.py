"""Requests to sites and their replies over Flower's grid, with a deadline.

Requests go out as soon as their site is connected, and again where it lost the connection and is back. Whoever has not answered
at the deadline is left out, as is whoever answers with an error; a reply that comes later is recognised by the message it answers,
and dropped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.serverapp import Grid

from fedsi.errors import MessageError
from fedsi.flower.members import Members
from fedsi.flower.protocol import Reply, Request, in_short, pack_request, unpack_reply

_log = logging.getLogger("flwr")

# Beyond the deadline a request and its reply are of no use: the SuperLink then stops delivering them. The margin is for clocks.
_TTL_MARGIN = 30.0
_NODES_INTERVAL = 2.0
_ASK_AGAIN = 15.0
_UNANSWERED = 60.0
# Flower's code for a reply that the SuperLink gives in the place of a node that is offline.
_NODE_UNAVAILABLE = 5


@dataclass
class _Sent:
    site: str
    exchange: int
    expires: float


@dataclass
class Transport:
    """Carries messages between the server and the nodes of its sites."""

    grid: Grid
    members: Members
    deadline: float
    """Seconds that an exchange lasts at most."""
    reconnect: float
    """Seconds that an exchange waits for sites that are not connected, once all others have answered."""
    limit: int
    """Bytes that a reply may have."""
    poll: float = 0.5
    """Seconds between two questions for replies."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    joined: dict[str, Reply] = field(default_factory=dict)
    """What each site told when it joined."""
    _joins: dict[str, tuple[int, float]] = field(default_factory=dict)
    _ask_after: dict[int, float] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)
    _late: dict[str, _Sent] = field(default_factory=dict)
    _nodes_at: float = float("-inf")

    def message(self, request: Request, node: int, kind: str) -> Message:
        """The request as a message for this node; ``kind`` is Flower's type of message."""
        # An hour at least for who is asked its name: it may be at work, and answers only one message at a time.
        ttl = self.deadline + _TTL_MARGIN if kind != "query" else max(self.deadline, 3600.0)
        return Message(pack_request(request), dst_node_id=node, message_type=kind, ttl=ttl, group_id=str(request.exchange))

    def refresh(self, at_once: bool = False) -> None:
        """Looks who is online, every two seconds or at once, asks new nodes for their names, and takes note of their answers."""
        now = self.clock()
        if at_once or now - self._nodes_at >= _NODES_INTERVAL:
            self._nodes_at = now
            # A node that was killed while it was asked never answers: it is asked again after a while.
            asked = {node for node, since in self._joins.values() if now - since < _UNANSWERED}
            unknown = [node for node in self.members.update(self.grid.get_nodes()) if node not in asked]
            for node in unknown:
                if self._ask_after.get(node, now) <= now:
                    for message_id in self._push(self.message(Request("join", 0), node, "query")):
                        self._joins[message_id] = (node, now)
        for reply in self._pull(self._joins):
            node, _ = self._joins.pop(reply.metadata.reply_to_message_id)
            self._introduce(node, reply)

    def exchange(self, requests: Mapping[str, Request], messages: Iterable[Message], kind: str) -> list[Message]:
        """Sends the messages, and the requests of sites that connect meanwhile; returns the replies that came in time."""
        start = alone = self.clock()
        waiting: dict[str, _Sent] = {}
        absent = dict(requests)
        replies: list[Message] = []
        self._asked = {}

        def send(message: Message) -> None:
            site = self.members.site(message.metadata.dst_node_id)
            if site is None or site not in absent:
                return
            for message_id in self._push(message):
                request = absent.pop(site)
                self._asked[message_id] = site
                waiting[message_id] = _Sent(site, request.exchange, self.clock() + self.deadline + _TTL_MARGIN)

        self._drop_late()
        for message in messages:
            send(message)
        while True:
            for reply in self._pull(waiting):
                sent = waiting.pop(reply.metadata.reply_to_message_id)
                if reply.has_error() and reply.error.code == _NODE_UNAVAILABLE:
                    # It is asked again when it is back: the same request twice gives the same reply.
                    _log.warning("fedsi: %r is not connected any more", sent.site)
                    absent[sent.site] = requests[sent.site]
                    self.refresh(at_once=True)
                elif reply.has_error():
                    reason = reply.error.reason or f"error {reply.error.code}"
                    _log.warning("fedsi: no answer of %r: %r", sent.site, in_short(reason))
                else:
                    replies.append(reply)
            elapsed = self.clock() - start
            if waiting or not absent:
                alone = self.clock()
            if elapsed >= self.deadline or (not waiting and (not absent or self.clock() - alone >= self.reconnect)):
                break
            self.refresh()
            self._drop_late()
            for site, request in list(absent.items()):
                if (node := self.members.node(site)) is not None:
                    send(self.message(request, node, kind))
            self.sleep(min(self.poll, max(0.0, self.deadline - elapsed)))
        for site in sorted([*absent, *(sent.site for sent in waiting.values())]):
            why = "is not connected" if site in absent else f"has not answered within {self.deadline:g} s"
            _log.warning("fedsi: %r %s, and is left out", site, why)
        self._late |= waiting
        return replies

    def read(self, message: Message, exchange: int) -> Reply | None:
        """The reply in a message of this exchange, or none, with a line in the log, where it cannot be used."""
        site = self._asked.get(message.metadata.reply_to_message_id)
        if site is None:
            _log.warning("fedsi: a reply of node %d that nobody asked for is dropped", message.metadata.src_node_id)
            return None
        try:
            reply = unpack_reply(message.content, self.limit)
        except MessageError as error:
            _log.warning("fedsi: the reply of %r cannot be used: %s", site, in_short(error))
            return None
        # First of all: a site that cannot read the request knows neither its exchange nor, perhaps, its own name. Which request
        # this answers is known by the message's id.
        if reply.error is not None:
            _log.warning("fedsi: %r could not do it: %r", site, in_short(reply.error))
            return None
        if reply.exchange != exchange:
            _log.warning(
                "fedsi: a reply of %r to exchange %d came in exchange %d, and is dropped", site, reply.exchange, exchange
            )
            return None
        if reply.site != site:
            _log.warning("fedsi: %r replies as %r, and is left out: its site file has changed", site, in_short(reply.site))
            return None
        return reply

    def _introduce(self, node: int, message: Message) -> None:
        self._ask_after[node] = self.clock() + _ASK_AGAIN
        if message.has_error():
            _log.warning("fedsi: node %d did not say who it is: %r", node, in_short(message.error.reason or message.error.code))
            return
        try:
            reply = unpack_reply(message.content, self.limit)
        except MessageError as error:
            _log.warning("fedsi: node %d: %s", node, in_short(error))
            return
        if reply.error is not None:
            _log.warning("fedsi: site %r (node %d) cannot join: %r", in_short(reply.site), node, in_short(reply.error))
            return
        if self.members.introduce(node, reply.site) is None:
            self.joined[reply.site] = reply

    def _push(self, message: Message) -> list[str]:
        # One by one: a SuperLink refuses a request of several messages that is too large as a whole.
        return [message_id for message_id in self.grid.push_messages([message]) if message_id]

    def _pull(self, sent: Mapping[str, object]) -> list[Message]:
        if not sent:
            return []
        replies = self.grid.pull_messages(list(sent))
        return [reply for reply in replies if reply.metadata.reply_to_message_id in sent]

    def _drop_late(self) -> None:
        for reply in self._pull(self._late):
            sent = self._late.pop(reply.metadata.reply_to_message_id)
            if not reply.has_error():
                _log.warning("fedsi: a reply of %r to exchange %d came too late, and is dropped", sent.site, sent.exchange)
        self._late = {message_id: sent for message_id, sent in self._late.items() if sent.expires > self.clock()}
