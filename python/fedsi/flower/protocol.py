"""What travels between server and sites: one Flower message holds one message of the engine and what says whose it is.

A message is a ``RecordDict`` of two records: ``fedsi``, a ``ConfigRecord`` of a few named fields, and ``payload``, an
``ArrayRecord`` of one array of bytes (Flower sends arrays in pieces, so that a payload may be large). The payload is the
engine's and is checked by the engine; what is checked here is that both ends speak the same protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedsi import __version__
from fedsi.errors import MessageError

PROTOCOL = 1
"""The number of this protocol. It grows when messages change such that older versions cannot read them."""

_FIELDS = "fedsi"
_PAYLOAD = "payload"
_BYTES = "fedsi.bytes"
_SHORT = 300

_Value = TypeVar("_Value", int, str, bytes)


@dataclass(frozen=True)
class Opening:
    """What a site needs to take part, sent with every request: a site's process may be new, and its disk empty."""

    federation: str
    """The federation's id; a site's state belongs to one federation."""
    config: str
    """The checked config, as TOML."""
    agreement: bytes | None
    """What the sites' descriptions of their data agree on."""
    site: str
    """The name by which the server knows the site."""
    client: int
    """The site's number."""
    clients: int
    """How many sites there are. A site is not told who the others are."""


@dataclass(frozen=True)
class Request:
    """What the server asks of a site."""

    kind: str
    """``join``, ``describe``, or what the engine calls the exchange."""
    exchange: int
    """The number of the exchange within the run; the reply repeats it."""
    payload: bytes = b""
    """The engine's request; of ``join`` and ``describe`` empty."""
    opening: Opening | None = None
    """Everything but ``join``: how the site takes part."""


@dataclass(frozen=True)
class Reply:
    """What a site answers."""

    exchange: int
    """The number of the exchange it answers."""
    site: str
    """The site's name, as its site file has it."""
    version: str
    """The fedsi of the site."""
    payload: bytes = b""
    """The engine's reply; of ``describe`` the description of the site's data; of ``join`` empty."""
    own_data: bool = False
    """``join``: whether the site's data comes from a function of its own, which only a description makes known."""
    error: str | None = None
    """Why the site did not do it, where it did not."""


def pack_request(request: Request) -> RecordDict:
    """The request as records."""
    fields = _common(request.exchange)
    fields["kind"] = request.kind
    if (opening := request.opening) is not None:
        fields["federation"] = opening.federation
        fields["config"] = opening.config
        fields["site"] = opening.site
        fields["client"] = opening.client
        fields["clients"] = opening.clients
        # Flower cannot count the bytes of an empty value, so that what is empty is left out.
        if opening.agreement:
            fields["agreement"] = opening.agreement
    return _records(fields, request.payload)


def unpack_request(records: RecordDict, limit: int) -> Request:
    """The request of these records, of at most ``limit`` bytes. Raises :class:`MessageError` with what is wrong."""
    fields, payload = _open(records, limit, "the server")
    opening = None
    if "federation" in fields:
        client, clients = _field(fields, "client", int), _field(fields, "clients", int)
        if not 0 <= client < clients:
            raise MessageError(f"the server's message: site {client} of {clients}")
        opening = Opening(
            federation=_field(fields, "federation", str),
            config=_field(fields, "config", str),
            agreement=_optional(fields, "agreement", bytes),
            site=_field(fields, "site", str),
            client=client,
            clients=clients,
        )
    return Request(_field(fields, "kind", str), _field(fields, "exchange", int), payload, opening)


def pack_reply(reply: Reply) -> RecordDict:
    """The reply as records."""
    fields = _common(reply.exchange)
    fields["site"] = reply.site
    fields["own-data"] = int(reply.own_data)
    if reply.error is not None:
        fields["error"] = reply.error
    return _records(fields, reply.payload)


def unpack_reply(records: RecordDict, limit: int) -> Reply:
    """The reply of these records, of at most ``limit`` bytes. Raises :class:`MessageError` with what is wrong."""
    fields, payload = _open(records, limit, "the site")
    return Reply(
        exchange=_field(fields, "exchange", int),
        site=_field(fields, "site", str),
        version=_field(fields, "version", str),
        payload=payload,
        own_data=_field(fields, "own-data", int) == 1,
        error=_optional(fields, "error", str),
    )


def in_short(words: object) -> str:
    """What another machine says, as one line of printable characters that is not long: it goes into a log."""
    line = " ".join(str(words).split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


def _common(exchange: int) -> dict[str, int | str | bytes]:
    return {"protocol": PROTOCOL, "version": __version__, "exchange": exchange}


def _records(fields: dict[str, int | str | bytes], payload: bytes) -> RecordDict:
    array = Array(dtype="uint8", shape=(len(payload),), stype=_BYTES, data=payload)
    return RecordDict({_FIELDS: ConfigRecord(fields), _PAYLOAD: ArrayRecord({_PAYLOAD: array})})


def _open(records: RecordDict, limit: int, sender: str) -> tuple[ConfigRecord, bytes]:
    """The fields and the payload, once both ends are known to speak the same protocol."""
    fields = records.config_records.get(_FIELDS)
    arrays = records.array_records.get(_PAYLOAD)
    if fields is None or arrays is None:
        raise MessageError(f"a message of {sender} that is none of fedsi's: is another app running in this federation?")
    protocol = _field(fields, "protocol", int)
    if protocol != PROTOCOL:
        version = in_short(fields.get("version", "another version"))
        raise MessageError(
            f"{sender} has fedsi {version}, which speaks protocol {protocol}; here is fedsi {__version__}, which speaks "
            f"protocol {PROTOCOL}: install the same version of fedsi at the server and at every site"
        )
    array = arrays.get(_PAYLOAD)
    if array is None or array.stype != _BYTES:
        raise MessageError(f"a message of {sender} without a payload")
    size = len(array.data) + sum(len(value) for value in fields.values() if isinstance(value, (str, bytes)))
    if size > limit:
        raise MessageError(
            f"a message of {sender} has {size} bytes, and at most {limit} are accepted "
            "(`max-message-mb` of the run config, `max_message_mb` of the site file)"
        )
    return fields, array.data


def _field(fields: ConfigRecord, name: str, kind: type[_Value]) -> _Value:
    value = fields.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MessageError(f"a message whose `{name}` is missing or of another kind than {kind.__name__}")
    return value


def _optional(fields: ConfigRecord, name: str, kind: type[_Value]) -> _Value | None:
    return _field(fields, name, kind) if name in fields else None
