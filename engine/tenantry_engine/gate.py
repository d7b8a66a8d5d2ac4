"""Who may be admitted in a step, and who has been kept from a seat for how long."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

from tenantry_core import seats
from tenantry_core.ledger import BACKGROUND, Rank
from tenantry_core.seats import Holding

SEAT_BOUND: Final = 1.0
"""Seconds that a less-served tenant below its share may wait for a seat. Beyond it nobody that has
its share of seats is admitted, and the wait counts as an inversion."""
GRACE: Final = 0.25
"""Seconds that such a tenant waits before a seat is recalled for it, unless it has just begun to
wait: one that always waits is now before and now behind the others, and would recall what it had
let pass a moment ago."""
AHEAD: Final = 50.0
"""Credits by which a tenant below its share of seats goes before its rank: of two that were served
almost alike the one that lacks a seat gets it, and needn't have it recalled a moment later."""


Place = tuple[int, float, str]
"""A rank as a plain tuple."""


@dataclass(slots=True)
class Gate:
    """The rules of one step.

    `share` and `running` are seats by tenant, `free` those that nobody holds. `absent` are tenants
    below their share that were here a moment ago and have nothing waiting. `closed`: nobody enters;
    `only`: nobody but this tenant; `below`: those who wait for a seat of their share; `late`: those
    of them who wait beyond the bound; `later`: by how much places are put back, see `foresight`.
    """

    share: Mapping[str, int]
    running: Mapping[str, int]
    free: int
    absent: Callable[[], Sequence[Holding]] = tuple
    together: float = inf
    below: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    later: Mapping[str, float] = field(default_factory=dict)
    closed: bool = False
    only: str | None = None
    admitted: dict[str, int] = field(default_factory=dict)
    _absent: Sequence[Holding] | None = None

    def admits(self, place: Place) -> bool:
        """Whether the tenant of this place may take one of the free seats."""
        tenant = place[2]
        if self.closed or self.free < 1 or self.only not in (None, tenant):
            return False
        if self.running.get(tenant, 0) + self.admitted.get(tenant, 0) < self.share.get(tenant, 0):
            return True
        if not any(self.running.values()) and not any(self.admitted.values()):
            return True  # an engine that stands idle keeps no seat free
        if self.late and tenant not in self.late:
            return False
        if self._absent is None:
            self._absent = self.absent()
        return self.free > seats.reserved(self._absent, self.share, Rank(*place), self.together)

    def take(self, tenant: str) -> None:
        """A request of the tenant has been admitted."""
        self.free -= 1
        self.admitted[tenant] = self.admitted.get(tenant, 0) + 1


class Others(Protocol):
    """Tenants that wait, and are put in line only when it is their turn: they may be many."""

    def precede(self, place: Place) -> bool:
        """Whether one of them goes before this place, that of a tenant that is not one of them."""
        ...

    def line(self) -> list[Place]:
        """Their places."""
        ...


class Admission:
    """Whose head is next, within one step: the least served tenant's that may enter and fits.

    `line` has a place for everybody who waits but the `others`, and is used up; `first` finds the
    first request of a tenant that fits, None if there is none. A tenant that was turned away is not
    asked again: free seats and blocks only become fewer within a step. Of tenants that were served
    alike the one goes first that `came` first: what it says is smaller.
    """

    def __init__(
        self,
        line: list[Place],
        gate: Gate,
        first: Callable[[str], Any | None],
        others: Others | None = None,
        came: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._gate = gate
        self._heap = self._put_back(line)
        heapq.heapify(self._heap)
        self._first = first
        self._others = others
        self._came = came
        self._clear: Place | None = None
        """Up to here none of the others goes before anybody in line."""
        self._last_band = BACKGROUND - 1
        if not self._heap or self._heap[0][0] == BACKGROUND:
            self._admit_others()
            # The background waits for all that wait, the others for those who can use what is free.
            if not self._heap or self._heap[0][0] == BACKGROUND:
                self._last_band = BACKGROUND
        self._untie()

    def next(self) -> Any | None:
        """The request to offer; the same one until `taken` or `passed` is said."""
        heap, gate = self._heap, self._gate
        while gate.free > 0:
            if self._others is not None and (not heap or self._overtaken(heap[0])):
                self._admit_others()
            if not heap or heap[0][0] > self._last_band:
                return None
            if gate.admits(heap[0]):
                request = self._first(heap[0][2])
                if request is not None:
                    return request
            heapq.heappop(heap)
            self._untie()
        return None

    def _overtaken(self, place: Place) -> bool:
        """Whether one of the others goes before this place; asked for the whole line first."""
        if self._others is None or (self._clear is not None and place <= self._clear):
            return False
        last = max(self._heap) if self._clear is None else place
        if not self._others.precede(last):
            self._clear = last
            return False
        return place == last or self._others.precede(place)

    def _admit_others(self) -> None:
        """They stand in line as well from now on."""
        if self._others is not None:
            self._heap.extend(self._put_back(self._others.line()))
            heapq.heapify(self._heap)
            self._others = None
            self._untie()

    def _put_back(self, line: list[Place]) -> list[Place]:
        """Those whose decodes will take more than their part stand behind their own places."""
        later = self._gate.later
        if not later:
            return line
        return [(band, tag + later.get(tenant, 0.0), tenant) for band, tag, tenant in line]

    def taken(self, tenant: str, cost: float) -> None:
        """The tenant's request was admitted: for the rest of the step it counts as served."""
        self._gate.take(tenant)
        if self._heap and self._heap[0][2] == tenant:
            band, tag, _ = self._heap[0]
            heapq.heapreplace(self._heap, (band, tag + cost, tenant))
            self._untie()

    def _untie(self) -> None:
        """Of those at the front that were served alike, put the one first that came first. The
        heap's order by what was served stays as it is."""
        heap = self._heap
        if len(heap) < 2 or heap[0][1] not in [place[1] for place in heap[1:3]]:
            return
        alike = [at for at, place in enumerate(heap) if place[:2] == heap[0][:2]]
        foremost = min(alike, key=lambda at: (self._came(heap[at][2]), heap[at][2]))
        heap[0], heap[foremost] = heap[foremost], heap[0]


class Shares:
    """The seats that each active tenant is entitled to, counted when something has changed."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._share: Mapping[str, int] = {}
        self.parts: dict[str, float] = {}
        """The part of everything that each is entitled to, and the largest of them; 0 to 1."""
        self.largest = 1.0

    def of(
        self, total: int, active: tuple[str, ...], weight: Callable[[str], float]
    ) -> Mapping[str, int]:
        """Seats by tenant."""
        key = (total, active)
        if key != self._key:
            self._key = key
            weights = {tenant: weight(tenant) for tenant in active}
            self._share = seats.divided(total, weights)
            total_weight = sum(weights.values()) or 1.0
            self.parts = {tenant: each / total_weight for tenant, each in weights.items()}
            self.largest = max(self.parts.values(), default=1.0)
        return self._share


class Waits:
    """Since when each tenant below its share waits while a more served one runs."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._order: list[str] = []
        self._fresh: frozenset[str] = frozenset()
        self._counted: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._since)

    def see(self, now: float, below: Iterable[Place], fresh: frozenset[str], most: Place) -> None:
        """Those who wait `below` their share at the moment, those of them that have just begun to,
        and the most served one that runs something."""
        self._order = [place[2] for place in sorted(below) if place < most]
        self._since = {tenant: self._since.get(tenant, now) for tenant in self._order}
        self._fresh = fresh
        self._counted &= self._since.keys()

    def served(self, admitted: Iterable[str]) -> None:
        """These tenants have just got a seat: their wait is over."""
        for tenant in admitted:
            self._since.pop(tenant, None)
            self._counted.discard(tenant)

    def ripe(self, now: float) -> list[str]:
        """Tenants for whom a seat may be recalled, the least served first."""
        return [
            tenant
            for tenant in self._order
            if tenant in self._fresh or now - self._since.get(tenant, now) >= GRACE
        ]

    def longest(self, now: float) -> float:
        """For how long the one that has waited longest has waited; 0 if nobody does."""
        return now - min(self._since.values(), default=now)

    def late(self, now: float) -> frozenset[str]:
        """Tenants that have waited beyond the bound."""
        if self.longest(now) <= SEAT_BOUND:
            return frozenset()
        return frozenset(t for t, since in self._since.items() if now - since > SEAT_BOUND)

    def inverted(self, late: frozenset[str]) -> frozenset[str]:
        """Those of the `late` that have not been reported yet; now they have."""
        fresh = late - self._counted
        self._counted |= fresh
        return fresh
