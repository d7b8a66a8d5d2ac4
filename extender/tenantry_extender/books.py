"""The books: the one mutable thing, which swaps one immutable snapshot for the next.

`watch` writes into them what the cluster says, `verbs.bind` takes holds, everybody reads
`snapshot`. They are complete once every kind of object has been listed.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tenantry_extender import manifests
from tenantry_extender.holds import Holds
from tenantry_extender.manifests import Manifest, Pod
from tenantry_extender.snapshot import Snapshot


class Kind(StrEnum):
    """What is watched; the value is the plural of the API."""

    NODES = "nodes"
    PODS = "pods"
    NAMESPACES = "namespaces"
    POLICIES = "tenantservingpolicies"


@dataclass(frozen=True)
class _Ledger:
    """How objects of one kind are written down: in which field of the snapshot, under which key,
    as which value, and which of them count no more."""

    field: str
    key: Callable[[Manifest], Hashable]
    value: Callable[[Manifest], object]
    is_over: Callable[[Manifest], bool] = lambda _body: False


def _name(body: Manifest) -> Hashable:
    return str(body["metadata"]["name"])


def _full_name(body: Manifest) -> Hashable:
    return (body["metadata"]["namespace"], body["metadata"]["name"])


def _uid(body: Manifest) -> Hashable:
    return str(body["metadata"]["uid"])


_LEDGERS: Mapping[Kind, _Ledger] = {
    Kind.NODES: _Ledger("nodes", _name, manifests.node),
    Kind.PODS: _Ledger("pods", _uid, manifests.pod, manifests.is_over),
    Kind.NAMESPACES: _Ledger("namespaces", _name, manifests.namespace_weight),
    Kind.POLICIES: _Ledger("policies", _full_name, manifests.policy_weight),
}


@dataclass
class Books:
    """`hold_seconds` is how long slices stay set aside without a sign of their pod. `changed` is
    called after every change of the snapshot."""

    snapshot: Snapshot
    hold_seconds: float
    changed: Callable[[], None] = lambda: None
    _heard: dict[Kind, float] = field(default_factory=dict)

    def complete(self) -> bool:
        return len(self._heard) == len(Kind)

    def age(self, now: float) -> float:
        """Seconds since the kind that was heard of least lately was known to be current."""
        return max((now - heard for heard in self._heard.values()), default=0.0)

    def missing(self) -> list[Kind]:
        return [kind for kind in Kind if kind not in self._heard]

    def heard(self, kind: Kind, now: float) -> None:
        """The API server has just shown that we have all of this kind."""
        if kind in self._heard:
            self._heard[kind] = now

    def replace(self, kind: Kind, bodies: Iterable[Manifest], now: float) -> None:
        """Start anew from a list of all objects of a kind."""
        ledger = _LEDGERS[kind]
        found = (body for body in bodies if not ledger.is_over(body))
        self._swap(kind, {ledger.key(body): ledger.value(body) for body in found})
        self._heard[kind] = now

    def put(self, kind: Kind, body: Manifest) -> None:
        """Write down an object that was added or changed; a node's heartbeat changes nothing."""
        ledger = _LEDGERS[kind]
        if ledger.is_over(body):
            self.remove(kind, body)
            return
        old, key, value = self._entries(kind), ledger.key(body), ledger.value(body)
        if old.get(key) != value:
            self._swap(kind, {**old, key: value})

    def remove(self, kind: Kind, body: Manifest) -> None:
        """Strike out an object that is gone; one that was never there is fine."""
        old, gone = self._entries(kind), _LEDGERS[kind].key(body)
        if gone in old:
            self._swap(kind, {key: value for key, value in old.items() if key != gone})

    def hold(self, pod: Pod, node: str, now: float) -> None:
        self._with_holds(self.snapshot.holds.take(pod, node, now + self.hold_seconds))

    def release(self, uid: str) -> None:
        self._with_holds(self.snapshot.holds.release(uid))

    def expire(self, now: float) -> tuple[str, ...]:
        """Drop the holds whose time is over, and return the uids of their pods."""
        left = self.snapshot.holds.expire(now)
        gone = tuple(uid for uid in self.snapshot.holds.by_uid if uid not in left.by_uid)
        if gone:
            self._with_holds(left)
        return gone

    def set_aside(self, uids: frozenset[str]) -> None:
        if uids != self.snapshot.aside:
            self._publish(replace(self.snapshot, aside=uids))

    def _entries(self, kind: Kind) -> Mapping[Any, Any]:
        entries: Mapping[Any, Any] = getattr(self.snapshot, _LEDGERS[kind].field)
        return entries

    def _swap(self, kind: Kind, entries: Mapping[Any, Any]) -> None:
        change: dict[str, Any] = {_LEDGERS[kind].field: entries}
        fresh = replace(self.snapshot, **change)
        if kind is Kind.PODS:
            fresh = replace(fresh, holds=fresh.holds.settle(fresh.pods))
        self._publish(fresh)

    def _with_holds(self, holds: Holds) -> None:
        self._publish(replace(self.snapshot, holds=holds))

    def _publish(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.changed()
