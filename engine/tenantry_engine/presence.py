"""Who has been here of late: requests now, their peak of the last seconds, and time served.

Windows are kept in slices, so that a question costs the number of slices and not of steps.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

ACTIVE_SECONDS: Final = 10.0
"""A tenant counts as active for so long after it last had a request. With one active tenant,
nothing that Tenantry does is on."""
PEAK_SLICE: Final = 5.0
SHARE_SECONDS: Final = 60.0
SHARE_SLICE: Final = 1.0
SAMPLE: Final = 4
"""One step in so many is looked at to tell who is kept waiting most of the time."""


@dataclass(slots=True)
class Peak:
    """The most of something in the last 5 to 10 seconds."""

    _window: int = 0
    _current: int = 0
    _before: int = 0

    def see(self, now: float, count: int) -> None:
        """There are so many now."""
        self._turn(now)
        self._current = max(self._current, count)

    def of(self, now: float) -> int:
        """The most of late."""
        self._turn(now)
        return max(self._current, self._before)

    def _turn(self, now: float) -> None:
        window = int(now // PEAK_SLICE)
        if window != self._window:
            self._before = self._current if window == self._window + 1 else 0
            self._window, self._current = window, 0


class Presence:
    """Running and waiting requests by tenant, and their recent past."""

    def __init__(self) -> None:
        self._running: Mapping[str, int] = {}
        self._waiting: Mapping[str, int] = {}
        self._here: frozenset[str] = frozenset()
        self._last: dict[str, float] = {}
        self._peaks: dict[str, Peak] = {}
        self.together = Peak()
        """Of the seats that all ask for together, see `Standing.together`."""
        self._slices: deque[Slice] = deque()
        self._now = 0.0
        self._steps = 0
        self._active: tuple[str, ...] = ()
        self._active_until = float("-inf")

    @property
    def seen(self) -> frozenset[str]:
        """Tenants that had a request in the last minute."""
        return self._here.union(self._last)

    def see(self, now: float, running: Mapping[str, int], waiting: Mapping[str, int]) -> None:
        """Take the counts of this moment, as shown and as peaks."""
        self._running, self._waiting = running, waiting
        self.here(now, frozenset((*running, *waiting)))
        for tenant in self._here:
            self.asks(now, tenant, running.get(tenant, 0) + waiting.get(tenant, 0))

    def here(self, now: float, tenants: frozenset[str]) -> None:
        """These have a request at the moment; called in each step, so it costs little if they are
        the ones of the last."""
        self._now = now
        if tenants is not self._here and tenants != self._here:
            for tenant in self._here - tenants:
                self._last[tenant] = now
            for tenant in tenants - self._here:
                self._last.pop(tenant, None)
            self._here = tenants
            self._active_until = now
        if now >= self._active_until:
            self._recount()

    def asks(self, now: float, tenant: str, count: int) -> None:
        """The tenant has so many requests at once. They grow in number only when one arrives."""
        peak = self._peaks.get(tenant)
        if peak is None:
            peak = self._peaks[tenant] = Peak()
        peak.see(now, count)

    def scheduled(self, now: float, kept: Iterable[str]) -> None:
        """A step has been scheduled, and these tenants still have something waiting."""
        self._steps += 1
        if self._steps % SAMPLE:
            return
        part = self._slice(now)
        part.steps += 1
        part.kept.update(tuple(kept))  # a mapping would be added up by its values

    def serve(self, now: float, parts: Mapping[str, float]) -> None:
        """The tenants have been given so many seconds of the engine."""
        served = self._slice(now).served
        for tenant, seconds in parts.items():
            served[tenant] += seconds

    def active(self) -> tuple[str, ...]:
        """Tenants that had a request in the last ACTIVE_SECONDS, by name."""
        return self._active

    def of(self, tenant: str) -> tuple[int, int]:
        """Requests running and waiting."""
        return self._running.get(tenant, 0), self._waiting.get(tenant, 0)

    def peak(self, tenant: str) -> int:
        """The most requests at once in the last 5 to 10 seconds."""
        peak = self._peaks.get(tenant)
        return 0 if peak is None else peak.of(self._now)

    def attained(self) -> dict[str, float]:
        """The part of the engine's busy time that each tenant got in the last minute."""
        total: defaultdict[str, float] = defaultdict(float)
        for part in self._slices:
            for tenant, seconds in part.served.items():
                total[tenant] += seconds
        everything = sum(total.values())
        return {t: part / everything for t, part in total.items()} if everything else {}

    def backlogged(self) -> frozenset[str]:
        """Tenants that had something waiting in most steps of the last minute."""
        steps = sum(part.steps for part in self._slices)
        kept = sum((part.kept for part in self._slices), Counter())
        return frozenset(tenant for tenant, count in kept.items() if 2 * count > steps)

    def forget(self, now: float) -> None:
        """Drop tenants that had no request in the last minute."""
        oldest = now - SHARE_SECONDS
        self._last = {t: last for t, last in self._last.items() if last > oldest}
        seen = self.seen
        self._peaks = {t: peak for t, peak in self._peaks.items() if t in seen}

    def _recount(self) -> None:
        since = self._now - ACTIVE_SECONDS
        lately = {tenant: last for tenant, last in self._last.items() if last >= since}
        self._active = tuple(sorted(self._here.union(lately)))
        self._active_until = min(lately.values(), default=self._now) + ACTIVE_SECONDS

    def _slice(self, now: float) -> "Slice":
        at = int(now // SHARE_SLICE)
        if not self._slices or self._slices[-1].at != at:
            self._slices.append(Slice(at))
            while self._slices[0].at <= at - SHARE_SECONDS / SHARE_SLICE:
                self._slices.popleft()
        return self._slices[-1]


@dataclass(slots=True)
class Slice:
    """One second: steps, in how many of them each tenant was kept waiting, seconds served."""

    at: int
    steps: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    served: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
