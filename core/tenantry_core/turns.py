"""Whose turn it is: deals free GPU slices of one kind to waiting pods, one whole pod at a time.

Entitlements are fractions of a GPU and pods are not, so rounding is decided here, in three classes:

1. a pod with which its policy stays within its entitlement;
2. a pod for the rest of an entitlement that is smaller than the pod; the largest rest comes first,
   so that every policy gets at least its entitlement rounded down to whole pods;
3. a pod with which its policy borrows what nobody of classes 1 and 2 wants.

Inside classes 1 and 3 the policy comes first that has the smallest part of its entitlement. Ties go
to the policy whose oldest pod waits longest, then by name. A pod that fits on no node takes nothing
away from the others, so slices never idle for it.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tenantry_core import placement
from tenantry_core.placement import Node, Wanted
from tenantry_core.slices import Slice

#: Creation time, then uid: the order of pods inside a policy, and between policies that are equal.
Age = tuple[str, str]


@dataclass(frozen=True)
class Waiting:
    """A pod that waits for a node; `count` slices of the kind that is being dealt."""

    uid: str
    age: Age
    priority: int
    wants: Wanted
    count: int


@dataclass(frozen=True)
class Claimant:
    """A policy: what it is entitled to and holds, in GPUs, and its waiting pods in order.
    `background` is weight 0: it comes after all others."""

    key: tuple[str, str]
    entitled: Fraction
    used: Fraction
    waiting: tuple[Waiting, ...]
    background: bool = False


class Room:
    """What is free on each node, in pieces of each resource; a deal takes from its own copy."""

    def __init__(self, nodes: Iterable[Node], free: Mapping[str, Mapping[str, int]]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._free = {name: dict(free[name]) for name in self._nodes}
        self._allowed: dict[tuple[object, ...], list[str]] = {}

    def free(self, node: str) -> Mapping[str, int]:
        return self._free.get(node, {})

    def best(self, pod: Wanted) -> str | None:
        """The node on which the pod leaves the fewest slices; ties by name."""
        ((resource, _),) = pod.slices.items()
        fits = (
            (self._free[name].get(resource, 0), name)
            for name in self._allowed_on(pod)
            if placement.has_room(pod, self._free[name])
        )
        return min(fits, default=(0, None))[1]

    def _allowed_on(self, pod: Wanted) -> list[str]:
        """What the nodes themselves allow is the same for all pods of a shape."""
        if pod.shape not in self._allowed:
            fine = (n for n in self._nodes.values() if placement.allowed(pod, n) is None)
            self._allowed[pod.shape] = [node.name for node in fine]
        return self._allowed[pod.shape]

    def take(self, pod: Wanted, node: str) -> None:
        left = self._free[node]
        for resource, count in pod.requests.items():
            left[resource] = left.get(resource, 0) - count


@dataclass(frozen=True)
class Dealt:
    """`nodes` maps each pod whose turn it is to the node where it was seen to fit; `room` is what
    is left after them."""

    nodes: Mapping[str, str]
    room: Room


def in_order(waiting: Iterable[Waiting], first: str | None = None) -> tuple[Waiting, ...]:
    """A policy's pods in the order of their turns: higher priority, then older. `first` comes
    before all: which of its pods uses a policy's turn is kube-scheduler's choice."""
    return tuple(sorted(waiting, key=lambda pod: (pod.uid != first, -pod.priority, pod.age)))


def deal(claimants: Sequence[Claimant], room: Room, kind: Slice, until: str | None = None) -> Dealt:
    """Deal what is in `room` (which is used up) to the waiting pods in the order of their turns.

    With `until` (a pod's uid) the deal stops at this pod, before it is placed: what is left in
    `room` is what the pod may choose from.
    """
    nodes: dict[str, str] = {}
    homeless: set[tuple[object, ...]] = set()  # room only shrinks: what fits nowhere, never will
    used = {claimant.key: claimant.used for claimant in claimants}
    turns = [
        (_rank(claimant, 0, claimant.used, kind), index, 0)
        for index, claimant in enumerate(claimants)
        if claimant.waiting
    ]
    heapq.heapify(turns)
    while turns:
        _, index, position = heapq.heappop(turns)
        claimant = claimants[index]
        pod = claimant.waiting[position]
        if pod.uid == until:
            break
        node = None if pod.wants.shape in homeless else room.best(pod.wants)
        if node is None:
            homeless.add(pod.wants.shape)
        else:
            room.take(pod.wants, node)
            nodes[pod.uid] = node
            used[claimant.key] += pod.count * kind.size
        if position + 1 < len(claimant.waiting):
            rank = _rank(claimant, position + 1, used[claimant.key], kind)
            heapq.heappush(turns, (rank, index, position + 1))
    return Dealt(nodes, room)


def _rank(claimant: Claimant, position: int, used: Fraction, kind: Slice) -> tuple[object, ...]:
    """Smaller comes first; see the three classes of the module."""
    entitled = claimant.entitled
    after = used + claimant.waiting[position].count * kind.size
    if after <= entitled:
        order = (1, used / entitled)
    elif used < entitled:
        order = (2, used - entitled)
    else:
        order = (3, used / entitled) if entitled > 0 else (4, used)
    return (claimant.background, *order, min(pod.age for pod in claimant.waiting), claimant.key)
