"""A call of the engine that asks for exchanges while it runs, turned into steps that a strategy takes one by one.

The engine's ``step(exchange)`` calls ``exchange`` when it has requests and goes on when it has the replies. Flower's strategies
work the other way round: ``configure_train`` returns messages, ``aggregate_train`` receives replies. So the call runs in a
thread that waits while replies are under way. Only one of the two threads works at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any

Requests = list[tuple[int, bytes]]
Exchange = Callable[[str, Requests], Iterable[tuple[int, bytes]]]


class Abandoned(Exception):
    """The strategy gave up while the engine waited for replies."""


class Conversation:
    """One call of the engine: requests out, replies in, as often as it asks, then its outcome."""

    def __init__(self, call: Callable[[Exchange], dict[str, Any]]) -> None:
        self._events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._replies: SimpleQueue[Requests | None] = SimpleQueue()
        self._outcome: dict[str, Any] | None = None
        self._waits = False
        self._thread = threading.Thread(target=self._work, args=(call,), name="fedsi-engine", daemon=True)
        self._thread.start()

    def requests(self) -> tuple[str, Requests] | None:
        """The engine's next exchange and its requests, or none when it is done. What it raises is raised here."""
        if self._outcome is not None:
            return None
        event, content = self._events.get()
        if event == "failed":
            self._thread.join()
            raise content
        if event == "done":
            self._thread.join()
            self._outcome = content
            return None
        self._waits = True
        return content

    def answer(self, replies: Requests) -> None:
        """The replies of the exchange that :meth:`requests` returned; who is missing did not answer."""
        self._waits = False
        self._replies.put(replies)

    @property
    def outcome(self) -> dict[str, Any] | None:
        """What the call returned, once :meth:`requests` said that it is done."""
        return self._outcome

    def abandon(self) -> None:
        """Ends the call where it waits for replies. Its thread ends; what it raises is of no interest any more."""
        if self._waits:
            self._waits = False
            self._replies.put(None)
            self._thread.join()

    def _work(self, call: Callable[[Exchange], dict[str, Any]]) -> None:
        try:
            outcome = call(self._exchange)
        except BaseException as error:  # Raised again by `requests`, in the strategy's thread.
            self._events.put(("failed", error))
        else:
            self._events.put(("done", outcome))

    def _exchange(self, kind: str, requests: Iterable[tuple[int, bytes]]) -> Requests:
        self._events.put(("requests", (kind, [(int(client), bytes(request)) for client, request in requests])))
        replies = self._replies.get()
        if replies is None:
            raise Abandoned("the server stops")
        return replies
