"""The cluster as one immutable value: nodes, pods, policies, weights and holds.

It counts pods of every scheduler, keyed by uid. Whoever decides asks a snapshot, so that all parts
of one decision see the same moment. What it derives is computed once, when first asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from tenantry_core import placement, shares, turns
from tenantry_core.placement import Misfit, Node
from tenantry_core.shares import Claim
from tenantry_core.slices import Slice
from tenantry_core.turns import Claimant, Room, Waiting
from tenantry_extender.holds import Holds
from tenantry_extender.manifests import Pod

#: Namespace and name of a policy.
Key = tuple[str, str]
#: Stands for the pods of a namespace that name our scheduler and no policy there is: together they
#: claim like one more policy of weight 1. No policy can have this name.
UNMANAGED = "(unmanaged)"
ZERO = Fraction(0)


@dataclass(frozen=True)
class Snapshot:
    """`aside` are uids of waiting pods that hold nobody back for now (see `patience`)."""

    schedulers: frozenset[str]
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    policies: Mapping[Key, Fraction] = field(default_factory=dict)
    namespaces: Mapping[str, Fraction] = field(default_factory=dict)
    holds: Holds = field(default_factory=Holds)
    aside: frozenset[str] = frozenset()

    def asking(self, pod: Pod) -> "Snapshot":
        """The same moment with `pod` as one that still waits, whatever the books say about it."""
        waiting = replace(pod, node="", nominated="", gated=False)
        return replace(
            self,
            pods={**self.pods, pod.uid: waiting},
            holds=self.holds.release(pod.uid),
            aside=self.aside - {pod.uid},
        )

    def claim_of(self, pod: Pod) -> Key | None:
        """Whose claim a pod counts against; None for pods that others schedule and own."""
        if (pod.namespace, pod.policy) in self.policies:
            return (pod.namespace, pod.policy)
        return (pod.namespace, UNMANAGED) if pod.scheduler in self.schedulers else None

    def node_of(self, pod: Pod) -> str:
        """Where the pod's slices are taken: its node, its hold, or the room made for it by
        preemption; "" while it waits."""
        return pod.node or self.holds.node_of(pod.uid) or pod.nominated

    @cached_property
    def free(self) -> Mapping[str, Mapping[str, int]]:
        """What is left of each node's allocatable; below zero where others have overdrawn it."""
        left = {name: dict(node.allocatable) for name, node in self.nodes.items()}
        for pod in self.pods.values():
            amounts = left.get(self.node_of(pod))
            if amounts is not None:
                for resource, count in pod.wants.requests.items():
                    amounts[resource] = amounts.get(resource, 0) - count
        return left

    @cached_property
    def kinds(self) -> tuple[Slice, ...]:
        """Every kind of slice that a node offers, in order."""
        return tuple(
            sorted({kind for node in self.nodes.values() for kind in node.slices.values()})
        )

    def home(self, pod: Pod) -> Slice | None:
        """The kind of slice that a waiting pod competes for: of those it may use, the one of which
        the cluster has most. None where no node could ever take it."""
        shape = pod.wants.shape
        if shape not in self._homes:
            self._homes[shape] = self._find_home(pod)
        return self._homes[shape]

    @cached_property
    def _homes(self) -> dict[tuple[object, ...], Slice | None]:
        return {}

    def _find_home(self, pod: Pod) -> Slice | None:
        sizes: dict[Slice, Fraction] = {}
        if len(pod.wants.slices) != 1:
            return None
        ((resource, _),) = pod.wants.slices.items()
        for node in self.nodes.values():
            if placement.allowed(pod.wants, node) is None:
                kind = node.slices[resource]
                sizes[kind] = sizes.get(kind, ZERO) + node.allocatable[resource] * kind.size
        return min(sizes, key=lambda kind: (-sizes[kind], kind), default=None)

    def used(self, kind: Slice) -> Mapping[Key | None, Fraction]:
        """GPUs taken of this kind, by claim; None is what other schedulers' pods take."""
        return self._used.get(kind, {})

    @cached_property
    def _used(self) -> Mapping[Slice, Mapping[Key | None, Fraction]]:
        used: dict[Slice, dict[Key | None, Fraction]] = {}
        for pod in self.pods.values():
            node = self.nodes.get(self.node_of(pod))
            offers = node.slices if node is not None else {}
            for resource, count in pod.wants.slices.items():
                if resource in offers:
                    kind, key = offers[resource], self.claim_of(pod)
                    claims = used.setdefault(kind, {})
                    claims[key] = claims.get(key, ZERO) + count * kind.size
        return used

    @cached_property
    def _waiting(self) -> Mapping[Slice, Mapping[Key, tuple[Waiting, ...]]]:
        found: dict[Slice, dict[Key, list[Waiting]]] = {}
        for pod in self._candidates():
            key, kind = self.claim_of(pod), self.home(pod)
            if key is not None and kind is not None:
                found.setdefault(kind, {}).setdefault(key, []).append(waiting(pod))
        return {
            kind: {key: turns.in_order(pods) for key, pods in claims.items()}
            for kind, claims in found.items()
        }

    def oversized(self) -> Iterator[Pod]:
        """Waiting pods that no node could take, and some would if they asked for less."""
        for pod in self._candidates():
            nodes = self.nodes.values() if self.home(pod) is None else ()
            if any(placement.allowed(pod.wants, node) is Misfit.TOO_LARGE for node in nodes):
                yield pod

    def _candidates(self) -> Iterator[Pod]:
        """Pods that would use a turn: ours, whole, and with nothing taken yet."""
        for pod in self.pods.values():
            ours = pod.scheduler in self.schedulers and pod.wants.slices
            if ours and not (pod.gated or pod.ending or self.node_of(pod)):
                yield pod

    def capacity(self, kind: Slice) -> Fraction:
        """GPUs of this kind that are ours to divide: what our pods hold, and what is free on
        usable nodes. What other schedulers' pods hold is not."""
        held = sum((gpus for key, gpus in self.used(kind).items() if key is not None), ZERO)
        idle = sum(
            max(0, self.free[node.name].get(resource, 0))
            for node in self.nodes.values()
            if node.usable
            for resource, offers in node.slices.items()
            if offers == kind
        )
        return held + idle * kind.size

    def claimants(self, kind: Slice, asking: Pod | None = None) -> tuple[Claimant, ...]:
        """Everybody with a claim on this kind of slice. `asking` is counted as wanting this very
        kind, first among the pods of its policy."""
        queues = {key: list(queue) for key, queue in self._waiting.get(kind, {}).items()}
        if asking is not None:
            key = self.claim_of(asking) or (asking.namespace, UNMANAGED)
            others = [pod for pod in queues.get(key, ()) if pod.uid != asking.uid]
            queues[key] = [waiting(asking), *others]
        used = {key: gpus for key, gpus in self.used(kind).items() if key is not None}
        claims = {
            key: self._claim(key, kind, used.get(key, ZERO), queues.get(key, ()))
            for key in {**used, **queues}
        }
        entitled = shares.entitlements(self.capacity(kind), claims.values(), self.namespaces)
        return tuple(
            Claimant(
                key=key,
                entitled=entitled[key],
                used=used.get(key, ZERO),
                waiting=tuple(pod for pod in queues.get(key, ()) if pod.uid not in self.aside),
                background=0 in (claims[key].weight, self.namespaces.get(key[0], 1)),
            )
            for key in sorted(claims)
        )

    def _claim(self, key: Key, kind: Slice, used: Fraction, queue: Sequence[Waiting]) -> Claim:
        demand = used + sum(pod.count for pod in queue) * kind.size
        return Claim(key[0], key[1], self.policies.get(key, Fraction(1)), demand)

    def room(self, kind: Slice) -> Room:
        """What is free on the nodes that offer this kind."""
        offering = [node for node in self.nodes.values() if kind in node.slices.values()]
        return Room(offering, self.free)

    @cached_property
    def due(self) -> frozenset[str]:
        """The uids of all waiting pods whose turn it is."""
        dealt = (turns.deal(self.claimants(kind), self.room(kind), kind) for kind in self.kinds)
        return frozenset(uid for deal in dealt for uid in deal.nodes)


def waiting(pod: Pod) -> Waiting:
    ((_, count),) = pod.wants.slices.items()
    return Waiting(pod.uid, (pod.created, pod.uid), pod.priority, pod.wants, count)
