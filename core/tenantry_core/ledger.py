"""Who has been served how much: start-time fair queueing between tenants, in bands.

Each tenant has a tag: the cost of its service so far, divided by its weight. The tenant with the
smallest tag is the least served and goes first. Two tenants that always have work keep their tags
together, so they are served in the ratio of their weights; the gap is at most what one step of each
costs (|W_f/w_f - W_g/w_g| <= l_f/w_f + l_g/w_g).

A tenant that comes back is lifted to the virtual time: the tag with which the one that was served
last in a step began, and no less than that of the least-served tenant that has work. Idling banks
no credit, and nobody pays later for the time that it took when others did not want it. The lift
stops one small credit short, so that a newcomer goes before those with whom it has just drawn
level. Asking for little banks a burst at most.

Tiers are bands: a lower band is served when no higher one waits. So that it never starves, a band
that has work earns FLOOR of all service; once that is QUANTUM credits in arrears, its tenants go
before everybody until it is paid. Weight 0 is background: the last band, without a floor, whose
members share alike.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from math import inf
from typing import Final, NamedTuple

DUE: Final = -1
FOREGROUND: Final = 0
"""The first of TIERS bands."""
TIERS: Final = 3
BACKGROUND: Final = TIERS
BANDS: Final = range(TIERS + 1)
FLOOR: Final = 0.05
"""The part of all service that a tier is owed while it has work, whatever the higher ones ask."""
QUANTUM: Final = 50.0
"""Credits in arrears at which a tier's turn comes: paid at each step, it would cost each step."""
BURST: Final = 1000.0
"""Credits that a tenant with work may lag behind virtual time: what asking for little may save."""
LARGEST: Final = 2.0**20
"""Where the tags of a band are counted anew: beyond it a sum would lose what heavy tenants pay."""


class Rank(NamedTuple):
    """Smaller goes first. The name breaks a tie."""

    band: int
    tag: float
    tenant: str


def one_tier(_tenant: str) -> int:
    """Without tiers everybody is in the first."""
    return FOREGROUND


class Ledger:
    """The tags of all tenants. Costs are in any one unit, GPU-seconds or tokens.

    `weight` and `tier` (0, 1, 2: the first is served first) answer for every tenant, also for one
    never heard of; `credit` is a cost.
    """

    def __init__(
        self,
        weight: Callable[[str], float],
        credit: float,
        tier: Callable[[str], int] = one_tier,
    ) -> None:
        self._weight = weight
        self._tier = tier
        self._credit = credit
        self._tags: dict[str, float] = {}
        self._bands: dict[str, int] = {}
        self._divisors: dict[str, float] = {}
        self._present: frozenset[str] = frozenset()
        self._demand: list[int] = []
        """Tiers that have work now, if there is more than one."""
        self._only: int | None = None
        """The band of all that have work, if it is one."""
        self._least = -inf
        """No tag of a tenant with work is smaller; counted anew when that says too little."""
        self._owed = [0.0 for _ in BANDS]
        self._virtual = [0.0 for _ in BANDS]
        self._largest = [0.0 for _ in BANDS]

    def rank(self, tenant: str) -> Rank:
        """Where the tenant stands now. One without work stands where its return would put it."""
        if tenant in self._present:
            band = self._bands[tenant]
            return Rank(self.turn(band), self._tags[tenant], tenant)
        band = self.band(tenant)
        self._advance()
        return Rank(self.turn(band), self._lifted(tenant, band), tenant)

    def line(self, tenants: Collection[str], ahead: float = 0.0) -> list[tuple[int, float, str]]:
        """The ranks of tenants that have work, as plain tuples: for a step that asks about many.
        Each is put `ahead` by so many credits, divided by its weight."""
        tags, bands = self._tags, self._bands
        if ahead:
            credit, divisor = ahead * self._credit, self.divisor
            return [(band, tag - credit / divisor(t), t) for band, tag, t in self.line(tenants)]
        if self._only is not None:
            return list(zip(repeat(self._only), map(tags.__getitem__, tenants), tenants))
        turns = [self.turn(band) for band in BANDS]
        return [(turns[bands[each]], tags[each], each) for each in tenants]

    def precedes(
        self, tenants: Collection[str], place: tuple[int, float, str], by: float = 0.0
    ) -> bool:
        """Whether any of these tenants, who have work, was served less than who has this place, by
        more than so many credits or in an earlier band."""
        if not tenants:
            return False
        band, tag = place[0], place[1] - by * self._credit
        if self._only is not None:
            if self._only == band and self._nobody_below(tag):
                return False
            return (self._only, min(map(self._tags.__getitem__, tenants))) < (band, tag)
        return min(self.line(tenants))[:2] < (band, tag)

    def _nobody_below(self, tag: float) -> bool:
        """Whether no tenant with work has a smaller tag, all of them being in one band."""
        if tag > self._least:
            self._least = min(map(self._tags.__getitem__, self._present))
        return tag <= self._least

    def band(self, tenant: str) -> int:
        """Which band the tenant's weight and tier put it in."""
        return self._tier(tenant) if self._weight(tenant) > 0 else BACKGROUND

    def turn(self, band: int) -> int:
        """Where the band stands now: DUE while it is owed its floor."""
        return DUE if self._owed[band] >= QUANTUM * self._credit else band

    def divisor(self, tenant: str) -> float:
        """What a cost is divided by to become a tag: the weight, 1 in the background."""
        known = self._divisors.get(tenant)
        if known is None:
            known = self._divisors[tenant] = self._weight(tenant) or 1.0
        return known

    def attend(self, present: Iterable[str]) -> None:
        """Say who has work now, queued or running. Whoever did not have any before is lifted."""
        if present is self._present:
            return
        now = present if isinstance(present, frozenset) else frozenset(present)
        if now == self._present:
            return
        self._advance()
        for tenant in now - self._present:
            self._lift(tenant)
        self._present = now
        self._tell_demand()

    def begin(self, tenants: Iterable[str]) -> None:
        """A step serves these tenants, by rank; said before it is charged.

        Whoever goes before the last of them gets all it asks for, so that virtual time is there.
        """
        for tenant in tenants:
            band = self._bands.get(tenant)
            if band is not None and self._tags[tenant] > self._virtual[band]:
                self._virtual[band] = self._tags[tenant]

    def settle(self, pressed: Collection[str]) -> None:
        """Now and then: nobody with work stays more than a BURST, by weight, behind virtual time,
        but those who have been `pressed`, kept waiting ever since this was said last.

        One that asks for less than its share falls behind as long as it has something running.
        """
        for tenant in self._present.difference(pressed):
            behind = BURST * self._credit / self.divisor(tenant)
            least = self._virtual[self._bands[tenant]] - behind
            if self._tags[tenant] < least:
                self._tags[tenant] = least

    def charge(self, tenant: str, cost: float) -> None:
        """Add to what the tenant has been given; a negative cost corrects an earlier charge."""
        band = self._bands.get(tenant)
        if band is None:
            band = self._bands[tenant] = self.band(tenant)
        tag = self._tags.get(tenant, 0.0) + cost / self.divisor(tenant)
        self._tags[tenant] = tag
        if tag < self._least:
            self._least = tag
        if tag > self._largest[band]:
            self._largest[band] = tag
        if self._demand:
            self._owe(band, cost)

    def reweigh(
        self, weight: Callable[[str], float], tier: Callable[[str], int] | None = None
    ) -> None:
        """Other weights, and tiers, from now on. What has been served stays served."""
        self._advance()
        self._weight = weight
        self._tier = tier or self._tier
        self._divisors.clear()
        for tenant in self._present:
            if self._bands[tenant] != self.band(tenant):
                self._lift(tenant)
        self._tell_demand()

    def forget(self, keep: Collection[str]) -> None:
        """Drop the tags of those who have no work and are not in `keep`.

        Their return is then a first arrival: it banks no credit, and a debt is forgiven.
        """
        self._advance()
        for tenant in [t for t in self._tags if t not in self._present and t not in keep]:
            del self._tags[tenant], self._bands[tenant]
            self._divisors.pop(tenant, None)

    def _lift(self, tenant: str) -> None:
        band = self.band(tenant)
        tag = self._tags[tenant] = self._lifted(tenant, band)
        self._least = min(self._least, tag)
        self._bands[tenant] = band

    def _lifted(self, tenant: str, band: int) -> float:
        floor = self._virtual[band] - self._credit / self.divisor(tenant)
        if self._bands.get(tenant) != band:
            return floor  # never served, or served in another band, whose tags say nothing here
        return max(self._tags[tenant], floor)

    def _owe(self, served: int, cost: float) -> None:
        for band in self._demand:
            self._owed[band] += FLOOR * cost
        self._owed[served] = max(self._owed[served] - cost, 0.0)

    def _tell_demand(self) -> None:
        bands = {self._bands[tenant] for tenant in self._present}
        self._only = min(bands) if len(bands) == 1 else None
        tiers = sorted(bands - {BACKGROUND})
        self._demand = tiers if len(tiers) > 1 else []
        self._owed = [x if band in self._demand else 0.0 for band, x in enumerate(self._owed)]

    def _advance(self) -> None:
        """Virtual time: the least tag with work; with no work, all that has been served by then."""
        for band in BANDS:
            working = [self._tags[t] for t in self._present if self._bands[t] == band]
            mark = min(working, default=self._largest[band])
            self._virtual[band] = max(self._virtual[band], mark)
            if self._virtual[band] > LARGEST:
                self._count_anew(band)

    def _count_anew(self, band: int) -> None:
        """Make this moment the zero of the band; only differences between tags say anything."""
        zero = self._virtual[band]
        self._least = -inf
        for tenant in [each for each in self._tags if self._bands[each] == band]:
            self._tags[tenant] -= zero
        self._virtual[band] = 0.0
        self._largest[band] -= zero
