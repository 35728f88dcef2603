"""Who gets which rows: the partitions of runs, for arrays of your own.

Each function returns a list of :class:`ClientRows`, ``(name, train, test)`` with the numbers of the client's rows. The
same labels, settings and seed give the rows that a run on such a table gives its clients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedsi import _arrays, _native
from fedsi.errors import InputError

__all__ = ["ClientRows", "by_classes", "by_owner", "counts", "dirichlet", "iid", "shards"]


class ClientRows(NamedTuple):
    """The rows of one client."""

    name: str | None
    """Its name, where owners were given."""
    train: np.ndarray
    """Numbers of the rows it trains on."""
    test: np.ndarray
    """Numbers of the rows it is tested on."""


def by_classes(
    labels: Any,
    clients: int,
    *,
    classes_per_client: int = 2,
    train: int = 0,
    test: int = 0,
    test_fraction: float = 0.2,
    groups: Any = None,
    times: Any = None,
    seed: int = 1,
) -> list[ClientRows]:
    """Each client holds rows of a few of the classes.

    ``train`` and ``test`` are rows per class and client; 0: all rows are dealt, ``test_fraction`` of each client's for
    testing. Rows with equal ``groups`` (patients) stay together, on one side; with ``times`` a client's newest rows are
    its test rows.
    """
    return _divide("labels", labels, clients, classes_per_client, train, test, test_fraction, groups, times, seed)


def iid(
    rows: Any,
    clients: int,
    *,
    test_fraction: float = 0.2,
    groups: Any = None,
    times: Any = None,
    seed: int = 1,
) -> list[ClientRows]:
    """Each client holds a random share of everything.

    ``rows``: labels, by which test rows are stratified, or a number of rows.
    """
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        return _divide("iid", None, clients, 1, 0, 0, test_fraction, groups, times, seed, rows=int(rows))
    return _divide("iid", rows, clients, 1, 0, 0, test_fraction, groups, times, seed)


def dirichlet(
    labels: Any,
    clients: int,
    *,
    concentration: float = 0.5,
    test_fraction: float = 0.2,
    groups: Any = None,
    times: Any = None,
    seed: int = 1,
) -> list[ClientRows]:
    """Each client's mix of classes is drawn from a Dirichlet distribution: a small concentration gives few classes each."""
    return _divide("dirichlet", labels, clients, 1, 0, 0, test_fraction, groups, times, seed, concentration=concentration)


def shards(
    labels: Any,
    clients: int,
    *,
    shards_per_client: int = 2,
    test_fraction: float = 0.2,
    groups: Any = None,
    times: Any = None,
    seed: int = 1,
) -> list[ClientRows]:
    """Rows are sorted by class and cut into shards; each client holds a few."""
    return _divide("shards", labels, clients, 1, 0, 0, test_fraction, groups, times, seed, shards_per_client=shards_per_client)


def by_owner(
    owners: Any,
    *,
    labels: Any = None,
    test_fraction: float = 0.2,
    groups: Any = None,
    times: Any = None,
    seed: int = 1,
) -> list[ClientRows]:
    """Each row belongs to whom ``owners`` names; test rows are cut from each owner's, stratified by ``labels``."""
    names = _arrays.named("owners", owners)
    texts = [str(name) for name in names.tolist()]
    return _divide("natural", labels, 1, 1, 0, 0, test_fraction, groups, times, seed, rows=len(texts), owners=texts)


def counts(clients: list[ClientRows], labels: Any) -> np.ndarray:
    """How many rows of each class (in ascending order) each client trains on and is tested on: clients x classes x 2."""
    _, numbers = np.unique(_arrays.whole(labels, "labels"), return_inverse=True)
    classes = int(numbers.max()) + 1 if len(numbers) else 0
    found = [[np.bincount(numbers[rows], minlength=classes) for rows in (client.train, client.test)] for client in clients]
    return np.array(found, dtype=np.int64).reshape(len(clients), 2, classes).transpose(0, 2, 1)


def _divide(
    kind: str,
    labels: Any,
    clients: int,
    classes_per_client: int,
    train: int,
    test: int,
    test_fraction: float,
    groups: Any,
    times: Any,
    seed: int,
    *,
    rows: int | None = None,
    owners: list[str] | None = None,
    concentration: float = 0.5,
    shards_per_client: int = 2,
) -> list[ClientRows]:
    for name, value in (
        ("clients", clients),
        ("classes_per_client", classes_per_client),
        ("train", train),
        ("test", test),
        ("shards_per_client", shards_per_client),
        ("seed", seed),
    ):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**63:
            raise InputError(f"{name}: expected a whole number that is not negative, found {value!r}")
    for name, share in (("test_fraction", test_fraction), ("concentration", concentration)):
        if isinstance(share, bool) or not isinstance(share, (int, float, np.integer, np.floating)):
            raise InputError(f"{name}: expected a number, found {share!r}")
    if rows is not None and not 0 <= rows < 2**32:
        raise InputError(f"rows: expected a number from 0 to {2**32 - 1}, found {rows}")
    if labels is not None:
        whole = _arrays.whole(labels, "labels", rows)
        rows = len(whole)
        # Classes count from 0 in the order of their labels, whatever those are.
        labels = np.unique(whole, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if rows is None:
        raise InputError("labels: expected an array of classes, found None")
    if groups is not None:
        groups = _arrays.distinct("groups", _arrays.named("groups", groups, rows))[1]
    found = _native.partition(
        kind,
        rows,
        labels=labels,
        owners=owners,
        groups=groups,
        times=None if times is None else _arrays.numbers(times, "times", rows),
        clients=int(clients),
        labels_per_client=int(classes_per_client),
        train=int(train),
        test=int(test),
        test_fraction=float(test_fraction),
        concentration=float(concentration),
        shards_per_client=int(shards_per_client),
        seed=int(seed),
    )
    return [ClientRows(*client) for client in found]
