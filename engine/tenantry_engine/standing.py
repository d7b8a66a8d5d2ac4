"""Which tenants are here, and which wait below their share, hold more, or ask for no more than it.

A step moves a few tenants only: the census and the queue say which, and only those are looked at.
"""

from collections.abc import Iterable, Mapping

from tenantry_engine.census import Census
from tenantry_engine.waiting import TenantQueue


class Standing:
    """Seats held and asked for by tenant, against the seats of its share."""

    def __init__(self, census: Census, queue: TenantQueue) -> None:
        self._census = census
        self._queue = queue
        self.share: Mapping[str, int] = {}
        """The seats that each is entitled to."""
        self._present: frozenset[str] = frozenset()
        self._below: set[str] = set()
        self._light: set[str] = set()
        self._above: set[str] = set()
        self._known = True

    def judge(self, share: Mapping[str, int]) -> None:
        """These are the shares from now on, in seats."""
        if share is not self.share:
            self.share = share
            self._below.clear()
            self._light.clear()
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

    def above(self) -> set[str]:
        """Tenants that hold more seats than their share; to be read only."""
        self._follow()
        return self._above

    def _follow(self) -> None:
        census, queue = self._census, self._queue
        if census.moved or queue.moved:
            self._look(census.moved | queue.moved)
            census.moved.clear()
            queue.moved.clear()

    def _look(self, tenants: Iterable[str]) -> None:
        seats, counts, share = self._census.seats, self._queue.counts, self.share
        below, light, above = self._below, self._light, self._above
        for tenant in tenants:
            running, waiting = seats.get(tenant, 0), counts.get(tenant, 0)
            most = share.get(tenant, 0)
            if waiting and running < most:
                below.add(tenant)
            else:
                below.discard(tenant)
            if running and running + waiting <= most:
                light.add(tenant)
            else:
                light.discard(tenant)
            if running > most:
                above.add(tenant)
            else:
                above.discard(tenant)
            if (running + waiting > 0) != (tenant in self._present):
                self._known = False
