"""Which tenants are here, and which wait below their share, hold more, or ask for no more than it;
and whose decodes will take more than their part.

A step moves a few tenants only: the census and the queue say which, and only those are looked at.
"""

from collections.abc import Callable, Iterable, Mapping

from tenantry_engine.census import Census
from tenantry_engine.waiting import TenantQueue


class Standing:
    """Seats held and asked for by tenant, against the seats of its share. `excess` says by how much
    what a tenant's decodes will take is beyond its part, with one request more; over its weight."""

    def __init__(
        self,
        census: Census,
        queue: TenantQueue,
        excess: Callable[[str], float] = lambda _tenant: 0.0,
    ) -> None:
        self._census = census
        self._queue = queue
        self._excess = excess
        self._later: dict[str, float] = {}
        self.share: Mapping[str, int] = {}
        """The seats that each is entitled to."""
        self._present: frozenset[str] = frozenset()
        self._below: set[str] = set()
        self._light: set[str] = set()
        self._above: set[str] = set()
        self._known = True
        self._asked: dict[str, int] = {}
        self._together = 0

    def judge(self, share: Mapping[str, int]) -> None:
        """These are the shares from now on, in seats."""
        if share is not self.share:
            self.share = share
            self._below.clear()
            self._light.clear()
            self._later.clear()
            self._above.clear()
            self._look(self._queue.counts.keys() | self._census.seats.keys())

    def present(self, others: Iterable[str] = ()) -> frozenset[str]:
        """Tenants with a request that runs or waits, and these `others`; the same object while they
        are the same."""
        self._follow()
        extra = frozenset(others)
        if not self._known or extra:
            self._known = not extra
            self._present = extra.union(self._census.seats, self._queue.counts)
        return self._present

    def below(self) -> set[str]:
        """Tenants that wait and hold less than their share of the seats; to be read only."""
        self._follow()
        return self._below

    def light(self) -> set[str]:
        """Tenants that run something and ask for no more than their share; to be read only."""
        self._follow()
        return self._light

    def later(self) -> dict[str, float]:
        """By how much each is put back at admission, where that is anything; to be read only."""
        self._follow()
        return self._later

    def above(self) -> set[str]:
        """Tenants that hold more seats than their share; to be read only."""
        self._follow()
        return self._above

    def together(self) -> int:
        """Seats that all ask for together, each of its share; without those who have their share
        and wait for more."""
        self._follow()
        return self._together

    def _follow(self) -> None:
        census, queue = self._census, self._queue
        if census.moved or queue.moved:
            self._look(census.moved | queue.moved)
            census.moved.clear()
            queue.moved.clear()

    def _look(self, tenants: Iterable[str]) -> None:
        seats, counts, share = self._census.seats, self._queue.counts, self.share
        for tenant in tenants:
            running, waiting = seats.get(tenant, 0), counts.get(tenant, 0)
            most = share.get(tenant, 0)
            _put(self._below, tenant, if_=waiting > 0 and running < most)
            _put(self._light, tenant, if_=running > 0 and running + waiting <= most)
            _put(self._above, tenant, if_=running > most)
            asked = 0 if waiting and running >= most else min(running + waiting, most)
            self._together += asked - self._asked.pop(tenant, 0)
            if asked:
                self._asked[tenant] = asked
            excess = self._excess(tenant) if waiting else 0.0
            if excess > 0.0:
                self._later[tenant] = excess
            else:
                self._later.pop(tenant, None)
            if (running + waiting > 0) != (tenant in self._present):
                self._known = False


def _put(tenants: set[str], tenant: str, *, if_: bool) -> None:
    """Put it in, or take it out."""
    if if_:
        tenants.add(tenant)
    else:
        tenants.discard(tenant)
