"""Who may be admitted in a step, and who has been kept from a seat for how long."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tenantry_core import seats
from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding

SEAT_BOUND: Final = 1.0
"""Seconds that a less-served tenant below its share may wait for a seat. Beyond it nobody that has
its share of seats is admitted, and the wait counts as an inversion."""
GRACE: Final = 0.25
"""Seconds that such a tenant waits before a seat is recalled for it, if it runs something
already."""


class Gate:
    """The rules of one step. `closed`: nobody enters; `only`: nobody but this tenant."""

    def __init__(self, holdings: Sequence[Holding], total: int, blocked: str | None) -> None:
        self.holdings = holdings
        self.share = seats.shares(total, holdings)
        self.light = frozenset(
            h.rank.tenant for h in holdings if h.running + h.waiting <= self.share[h.rank.tenant]
        )
        """Tenants that ask for no more seats than their share."""
        self.blocked = blocked
        """A request that was offered in the last step and could not be admitted."""
        self.closed = False
        self.only: str | None = None
        self.late: frozenset[str] = frozenset()
        self.base = 0
        """Running requests when the step began; those behind them were admitted in it."""
        self._running = {holding.rank.tenant: holding.running for holding in holdings}

    def admits(self, rank: Rank, band: int, free: int, admitted: Mapping[str, int]) -> bool:
        """Whether the tenant of this rank may take one of `free` seats. `band` is the foremost that
        waits, `admitted` counts requests admitted in this step.
        """
        tenant = rank.tenant
        if self.closed or free < 1 or rank.band > band or self.only not in (None, tenant):
            return False
        holds_share = self._running.get(tenant, 0) + admitted.get(tenant, 0) >= self.share[tenant]
        if not holds_share:
            return True
        if self.late and tenant not in self.late:
            return False
        return free > seats.reserved(self.holdings, self.share, rank)


class Waits:
    """Since when each tenant below its share waits while a more served one runs."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._order: list[str] = []
        self._idle: frozenset[str] = frozenset()
        self._counted: set[str] = set()

    def see(self, now: float, holdings: Collection[Holding], share: Mapping[str, int]) -> None:
        """Take the holdings of this moment."""
        kept = sorted(h.rank for h in holdings if _kept_waiting(h, holdings, share))
        self._order = [rank.tenant for rank in kept]
        self._since = {tenant: self._since.get(tenant, now) for tenant in self._order}
        self._idle = frozenset(h.rank.tenant for h in holdings if not h.running)
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
            if tenant in self._idle or now - self._since[tenant] >= GRACE
        ]

    def late(self, now: float) -> frozenset[str]:
        """Tenants that have waited beyond the bound."""
        return frozenset(t for t, since in self._since.items() if now - since > SEAT_BOUND)

    def inverted(self, now: float) -> frozenset[str]:
        """Those of them that have not been reported yet; now they have."""
        fresh = self.late(now) - self._counted
        self._counted |= fresh
        return fresh


def _kept_waiting(
    holding: Holding, holdings: Collection[Holding], share: Mapping[str, int]
) -> bool:
    below = holding.waiting > 0 and holding.running < share[holding.rank.tenant]
    return below and any(other.running and other.rank > holding.rank for other in holdings)
