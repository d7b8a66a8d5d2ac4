"""Taking back what was lent: who waits below its share, and which running requests make room.

A request is sent back only for a tenant below its share whose head lacks a seat or KV blocks, only
if that is enough, and only as long as doing the lost work again stays within an allowance.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tenantry_core.budget import Allowance
from tenantry_core.stepmodel import Load, StepTimes, prompt_work
from tenantry_engine import turn
from tenantry_engine.gate import SEAT_BOUND, Gate, Place, Shares, Waits
from tenantry_engine.standing import Standing
from tenantry_engine.turn import Head, Member
from tenantry_engine.view import NOBODY, View

RECALL_SHARE: Final = 0.05
RECALL_WINDOW: Final = 60.0
"""Doing again what recalled requests had done may take this part of any window."""
LAST: Final[Place] = (99, 0.0, "")
"""A place behind all."""
_EMPTY: Final[frozenset[str]] = frozenset()


class Reclaim:
    """Watches who waits, and says who goes back. `report` is told of each tenant that waited beyond
    the bound."""

    def __init__(
        self, view: View, model: StepTimes, standing: Standing, report: Callable[[str], None]
    ) -> None:
        self.allowance = Allowance(RECALL_SHARE, RECALL_WINDOW)
        self._view = view
        self._model = model
        self._report = report
        self._waits = Waits()
        self._standing = standing
        self._most = ""

    def __bool__(self) -> bool:
        return bool(self._waits)

    def reset(self) -> None:
        """In a pause, or alone, nobody waits for anybody."""
        if self._waits:
            self._waits = Waits()

    def watch(self, now: float, gate: Gate, shares: Shares) -> bool:
        """Who waits below its share, and for how long; told to the gate. Whether anybody does."""
        waits, below = self._waits, self._below()
        gate.below = below
        if not waits and (not below or (len(below) <= gate.free and not self._crowded(gate))):
            return False  # there is a seat for each, and room for its head
        places = self._view.book.ledger.line(below)
        waits.see(now, places, self._fresh(now, gate), self._most_served(gate, shares, places))
        gate.late = waits.late(now)
        for tenant in waits.inverted(gate.late):
            self._report(tenant)
        return bool(waits)

    def victims(self, now: float) -> tuple[str, Sequence[Member]] | None:
        """Who gives back what for whom: for the tenant that waits longest with good reason."""
        lanes = self._view.queue.lanes
        ripe = next((tenant for tenant in self._waits.ripe(now) if tenant in lanes), None)
        if ripe is None:
            return None
        head = lanes[ripe].head
        if not self._lacks(head):
            return None
        found = self._chosen(self._view.head(head))
        cost = sum(self._cost(victim) for victim in found)
        if not found or not self.allowance.allows(cost, now):
            return None
        self.allowance.spend(cost, now)
        return ripe, found

    def served(self, tenants: Sequence[str]) -> None:
        """These have just got a seat."""
        self._waits.served(tenants)

    def waited(self, now: float) -> float:
        """For how long the one that waits longest has waited, in seconds."""
        return self._waits.longest(now)

    def _lacks(self, request: Any) -> bool:
        """Whether a request lacks a seat that somebody served more may have to give back, or
        blocks."""
        view = self._view
        if view.free_seats() < 1:
            above, rank = self._standing.above(), view.book.ledger.rank
            return bool(above) and max(map(rank, above)) > view.rank(request)
        return bool(view.scheduler.blocks_for(request) > view.scheduler.free_blocks())

    def _chosen(self, head: Head) -> Sequence[Member]:
        view = self._view
        return turn.recall(head, view.members(), view.room(), view.holdings())

    def _cost(self, victim: Member) -> float:
        done = victim.request.num_computed_tokens
        return self._model.predict(Load(prefill=done, work=prompt_work(0, done)))

    def _below(self) -> frozenset[str]:
        """Tenants that wait and hold less than their share of the seats."""
        below = self._standing.below()
        return frozenset(filter(self._view.ready, below)) if below else _EMPTY

    def _most_served(self, gate: Gate, shares: Shares, below: Sequence[Place]) -> Place:
        """The place of whoever runs and was served most, or of another that was served more than
        all who wait: that is as good to know, and the last such one mostly still is."""
        if not below:
            return LAST
        line, running = self._view.book.ledger.line, gate.running
        if self._most in running:
            place = line((self._most,))[0]
            if place > max(below):
                return place
        most: Place = max(line(running), default=NOBODY)
        self._most = most[2]
        return LAST if self._hoarded(shares) else most

    def _crowded(self, gate: Gate) -> bool:
        """Whether the head of one of them does not fit."""
        scheduler, lanes = self._view.scheduler, self._view.queue.lanes
        free, block = scheduler.free_blocks(), scheduler.block_size
        return any(lanes[tenant].head.num_tokens > free * block for tenant in gate.below)

    def _hoarded(self, shares: Shares) -> bool:
        """Whether somebody holds more than its share of the KV cache: then it is served too much,
        however little time it was given."""
        scheduler, held = self._view.scheduler, self._view.reader.census.held()
        most = turn.SLACK * scheduler.block_size * scheduler.blocks()
        return any(count > most * shares.parts.get(tenant, 0.0) for tenant, count in held.items())

    def _fresh(self, now: float, gate: Gate) -> frozenset[str]:
        """Of those below their share, who has been waiting for a moment only."""
        lanes = self._view.queue.lanes
        return frozenset(t for t in gate.below if lanes[t].born + SEAT_BOUND >= now)
