"""Who has been served how much: start-time fair queueing between tenants.

Each tenant has a tag: the cost of its service so far, divided by its weight. The tenant with the
smallest tag is the least served and goes first. Two tenants that always have work keep their tags
together, so they are served in the ratio of their weights; the gap is at most what one step of each
costs (|W_f/w_f - W_g/w_g| <= l_f/w_f + l_g/w_g).

A tenant that comes back is lifted to the virtual time, the tag of the least-served tenant that has
work, queued or running: idling banks no credit. The lift stops one small credit short, so that a
newcomer goes before those with whom it has just drawn level.

Weight 0 is background: a band of its own behind everybody else, whose members share alike.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

FOREGROUND: Final = 0
BACKGROUND: Final = 1
BANDS: Final = (FOREGROUND, BACKGROUND)
LARGEST: Final = 2.0**20
"""Where the tags of a band are counted anew: beyond it a sum would lose what heavy tenants pay."""


class Rank(NamedTuple):
    """Smaller goes first. The name breaks a tie."""

    band: int
    tag: float
    tenant: str


class Ledger:
    """The tags of all tenants. Costs are in any one unit, GPU-seconds or tokens.

    `weight` answers for every tenant, also for one never heard of; `credit` is a cost.
    """

    def __init__(self, weight: Callable[[str], float], credit: float) -> None:
        self._weight = weight
        self._credit = credit
        self._tags: dict[str, float] = {}
        self._bands: dict[str, int] = {}
        self._present: frozenset[str] = frozenset()
        self._virtual = [0.0 for _ in BANDS]
        self._largest = [0.0 for _ in BANDS]

    def rank(self, tenant: str) -> Rank:
        """Where the tenant stands now. One without work stands where its return would put it."""
        band = self.band(tenant)
        if tenant in self._present and self._bands[tenant] == band:
            return Rank(band, self._tags[tenant], tenant)
        return Rank(band, self._lifted(tenant, band), tenant)

    def band(self, tenant: str) -> int:
        """Which band the tenant's weight puts it in."""
        return FOREGROUND if self._weight(tenant) > 0 else BACKGROUND

    def attend(self, present: Iterable[str]) -> None:
        """Say who has work now, queued or running. Whoever did not have any before is lifted."""
        now = frozenset(present)
        self._advance()
        for tenant in now:
            band = self.band(tenant)
            if tenant not in self._present or self._bands[tenant] != band:
                self._tags[tenant] = self._lifted(tenant, band)
                self._bands[tenant] = band
        self._present = now

    def charge(self, tenant: str, cost: float) -> None:
        """Add to what the tenant has been given; a negative cost corrects an earlier charge."""
        band = self._bands.setdefault(tenant, self.band(tenant))
        tag = self._tags.get(tenant, 0.0) + cost / (self._weight(tenant) or 1.0)
        self._tags[tenant] = tag
        self._largest[band] = max(self._largest[band], tag)

    def reweigh(self, weight: Callable[[str], float]) -> None:
        """Other weights from now on. What has been served stays served."""
        self._weight = weight

    def forget(self, keep: Iterable[str]) -> None:
        """Drop the tags of those who have no work and are not in `keep`.

        Their return is then a first arrival: it banks no credit, and a debt is forgiven.
        """
        kept = self._present.union(keep)
        for tenant in [each for each in self._tags if each not in kept]:
            del self._tags[tenant], self._bands[tenant]

    def _lifted(self, tenant: str, band: int) -> float:
        floor = self._virtual[band] - self._credit / (self._weight(tenant) or 1.0)
        if self._bands.get(tenant) != band:
            return floor  # never served, or served in the other band, whose tags say nothing here
        return max(self._tags[tenant], floor)

    def _advance(self) -> None:
        """Virtual time: the least tag with work; with no work, all that has been served by then."""
        working: list[list[float]] = [[] for _ in BANDS]
        for tenant in self._present:
            working[self._bands[tenant]].append(self._tags[tenant])
        for band in BANDS:
            mark = min(working[band], default=self._largest[band])
            self._virtual[band] = max(self._virtual[band], mark)
            if self._virtual[band] > LARGEST:
                self._count_anew(band)

    def _count_anew(self, band: int) -> None:
        """Make this moment the zero of the band; only differences between tags say anything."""
        zero = self._virtual[band]
        for tenant in [each for each in self._tags if self._bands[each] == band]:
            self._tags[tenant] -= zero
        self._virtual[band] = 0.0
        self._largest[band] -= zero
