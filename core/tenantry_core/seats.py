"""Who may hold how many of the engine's places for running requests.

Seats are lent: a tenant may take every free one but those that a less-served tenant is about to
need, and gives one back when such a tenant waits and none is free. Nobody is pushed below its own
share. The same rules serve for KV blocks, where a seat is a block.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import floor, inf
from typing import Final

from tenantry_core.ledger import Rank

LEAST: Final = 1


@dataclass(frozen=True, slots=True)
class Holding:
    """One tenant: rank, seats held, requests waiting, most seats asked for of late, weight."""

    rank: Rank
    running: int
    waiting: int
    peak: int
    weight: float


def shares(seats: int, holdings: Collection[Holding]) -> dict[str, int]:
    """The seats that each tenant's weight entitles it to; at least one, and none for weight 0."""
    return divided(seats, {holding.rank.tenant: holding.weight for holding in holdings})


def divided(seats: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Seats by weight: at least one each, and none for weight 0.

    Rounded down: what is left over belongs to whoever asks.
    """
    total = sum(weights.values())
    return {
        tenant: max(floor(seats * weight / total), LEAST) if weight > 0 else 0
        for tenant, weight in weights.items()
    }


def reserved(
    holdings: Collection[Holding], share: Mapping[str, int], asking: Rank, together: float = inf
) -> int:
    """Seats to leave free when `asking` takes one, for less-served tenants with nothing waiting:
    what each of them asked for at once of late, but no more than all had `together`, and one."""
    each = sum(
        min(share[h.rank.tenant], max(h.peak, LEAST)) - h.running
        for h in holdings
        if not h.waiting
        and h.rank < asking
        and h.running < min(share[h.rank.tenant], max(h.peak, LEAST))
    )
    return int(min(each, max(together, LEAST)))


def lender(holdings: Collection[Holding], share: Mapping[str, int], asking: str) -> str | None:
    """Whose seat goes to `asking`, a tenant below its share: the most served tenant's that stays at
    its own share without it. None if there is none, or `asking` has its share.
    """
    mine = next((h for h in holdings if h.rank.tenant == asking), None)
    if mine is None or mine.running >= share[asking]:
        return None
    above = [
        h.rank
        for h in holdings
        if h.running > share[h.rank.tenant] and h.rank > mine.rank and h.rank.tenant != asking
    ]
    return max(above, default=Rank(0, 0.0, "")).tenant or None
