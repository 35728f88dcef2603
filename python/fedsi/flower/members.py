"""Who takes part: which node is which site.

A node is Flower's, a site is ours. Flower gives a node a number, which is the same after a restart where nodes have registered
keys, and another one where they have none. So every node is asked for its site's name, once, when it appears.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from fedsi.errors import ConfigError, FederationError
from fedsi.flower.protocol import in_short
from fedsi.flower.site_file import checked_name

_log = logging.getLogger("flwr")


class Node(Protocol):
    """What Flower tells of a node that is online."""

    node_id: int
    name: str
    online_until: float
    last_activated_at: str


@dataclass
class _Claim:
    """A node that gives the name of a site that another node, still online as far as Flower knows, gave before."""

    site: str
    holder_online_until: float


@dataclass
class Members:
    """The nodes of a federation and their sites.

    A name that was given when the node was registered (``flwr supernode register KEY --name NAME``) cannot be taken by another
    node. Names that nodes merely state can: a second node with a name that is taken is held back until the first is offline
    (it has then been restarted), and refused where both are alive.
    """

    sites: tuple[str, ...] = ()
    """The names that may take part; empty: any."""
    registered_names: bool = False
    """Whether a node must have a registered name."""
    settled: bool = False
    """Whether ``sites`` are those that the federation began with."""
    _node_of: dict[str, int] = field(default_factory=dict)
    _online: dict[int, Node] = field(default_factory=dict)
    _claims: dict[int, _Claim] = field(default_factory=dict)
    _refused: dict[int, str] = field(default_factory=dict)

    def update(self, nodes: Iterable[Node]) -> list[int]:
        """Takes note of the nodes that are online, and returns those whose site is not known, to be asked."""
        self._online = {node.node_id: node for node in nodes}
        self._resolve_claims()
        # A refused node that was started anew may have been given another name: it is asked again.
        self._refused = {
            node_id: activated
            for node_id, activated in self._refused.items()
            if node_id in self._online and self._online[node_id].last_activated_at == activated
        }
        known = {*self._node_of.values(), *self._claims, *self._refused}
        return [node for node in self._online if node not in known]

    def introduce(self, node_id: int, site: str) -> str | None:
        """A node says which site it is. Returns why it is refused, where it is."""
        node = self._online.get(node_id)
        if node is None:
            return None  # It went away meanwhile; it is asked again when it is back.
        reason = self._objection(node, site)
        if reason is None:
            holder = self._node_of.get(site)
            if holder is not None and holder != node_id and holder in self._online:
                _log.warning(
                    "fedsi: node %d calls itself %r as node %d does; it waits until that one is offline", node_id, site, holder
                )
                self._claims[node_id] = _Claim(site, self._online[holder].online_until)
                return None
            if holder is not None and holder != node_id:
                _log.info("fedsi: site %r is back as node %d (before: %d)", site, node_id, holder)
            self._node_of[site] = node_id
        else:
            self._refuse(node_id, reason)
        return reason

    def node(self, site: str) -> int | None:
        """The node of a site, where it is online."""
        node_id = self._node_of.get(site)
        return node_id if node_id in self._online else None

    def site(self, node_id: int) -> str | None:
        """The site of a node, where it is known."""
        return next((site for site, node in self._node_of.items() if node == node_id), None)

    def joined(self) -> list[str]:
        """The sites that have a node online, in the order of ``sites``, else of their names (site-2 before site-10)."""
        present = [site for site in self._node_of if self.node(site) is not None]
        return sorted(present, key=self.sites.index) if self.sites else sorted(present, key=_by_number)

    def disputed(self) -> list[str]:
        """Sites whose name two nodes give that are, as far as Flower knows, both online."""
        return sorted({claim.site for claim in self._claims.values()})

    def settle(self, sites: Iterable[str]) -> None:
        """From now on these are the sites, and nobody else joins."""
        self.sites = tuple(sites)
        self.settled = True
        self._node_of = {site: node for site, node in self._node_of.items() if site in self.sites}

    def _objection(self, node: Node, site: str) -> str | None:
        try:
            checked_name(site, "its site file")
        except ConfigError:
            return f"it calls itself {in_short(site)!r}: a site's name has letters, digits, `.`, `_` and `-`, 64 at most"
        if node.name and node.name != site:
            return f"it is registered as {node.name!r} and calls itself {site!r}: the name in its site file must be the registered one"
        if self.registered_names and not node.name:
            return "it is registered without a name, and `registered-names` is true: register it with --name"
        if self.sites and site not in self.sites:
            began = "the federation began without it" if self.settled else "it is not in `sites` of the run config"
            return f"{site!r} takes no part: {began}"
        return None

    def _resolve_claims(self) -> None:
        for node_id, claim in list(self._claims.items()):
            holder = self._node_of.get(claim.site)
            if node_id not in self._online:
                del self._claims[node_id]
            elif holder is None or holder not in self._online:
                del self._claims[node_id]
                self._node_of[claim.site] = node_id
                _log.info("fedsi: site %r is back as node %d", claim.site, node_id)
            elif self._online[holder].online_until > claim.holder_online_until:
                # A sign of life of the first node after the second one came: these are two.
                del self._claims[node_id]
                self._refuse(node_id, f"node {holder} is {claim.site!r} already: give each site a name of its own")
                if not self.settled:
                    raise FederationError(
                        f"two nodes call themselves {claim.site!r} ({holder} and {node_id}): "
                        "give each site a name of its own in its site file"
                    )

    def _refuse(self, node_id: int, reason: str) -> None:
        self._refused[node_id] = self._online[node_id].last_activated_at
        _log.error("fedsi: node %d takes no part: %s", node_id, reason)


def _by_number(name: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
