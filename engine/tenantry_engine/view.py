"""What is there at this moment, in the words of the decisions: members, holdings, room, heads.

Built from vLLM's scheduler and our own books when a decision asks for it; nothing is kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenantry_api.choices import Fairness
from tenantry_core.ledger import FOREGROUND, Rank
from tenantry_core.seats import Holding
from tenantry_engine import turn
from tenantry_engine.book import Book
from tenantry_engine.config import EngineConfig
from tenantry_engine.translate import Reader
from tenantry_engine.turn import Head, Member, Room
from tenantry_engine.waiting import TenantQueue

NOBODY: Final = Rank(FOREGROUND, float("-inf"), "")
"""A rank for all where tenants aren't told apart."""


class View:
    """One scheduler, a `FairScheduler`, with the reader, the queue and the book of its conductor.
    `config` is the one in force."""

    def __init__(self, scheduler: Any, reader: Reader, queue: TenantQueue, book: Book) -> None:
        self.scheduler = scheduler
        self.reader = reader
        self.queue = queue
        self.book = book
        self.config: EngineConfig = EngineConfig()

    def rank(self, request: Any) -> Rank:
        """The rank of a request's tenant; without fairness between them all are equal."""
        if self.config.fairness == Fairness.NONE:
            return NOBODY
        return self.book.ledger.rank(self.reader.tenant(request))

    def head(self, request: Any) -> Head:
        """A waiting request as one that would be admitted."""
        tokens = request.num_tokens - request.num_computed_tokens
        return Head(request, self.rank(request), tokens, self.scheduler.blocks_for(request))

    def ready(self, tenant: str) -> bool:
        """Whether vLLM would admit the tenant's head: not while it waits for its grammar."""
        return bool(self.scheduler.ready(self.queue.lanes[tenant].head))

    def free_seats(self) -> int:
        """Seats that nobody holds."""
        scheduler = self.scheduler
        return int(
            scheduler.seats() - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
        )

    def room(self) -> Room:
        """Seats and blocks."""
        scheduler = self.scheduler
        return Room(
            free_seats=self.free_seats(),
            seats=scheduler.seats(),
            free_blocks=scheduler.free_blocks(),
            blocks=scheduler.blocks(),
            block=scheduler.block_size,
        )

    def members(self) -> list[Member]:
        """Every running request as a possible victim."""
        scheduler = self.scheduler
        return turn.members(
            scheduler.running, self.rank, scheduler.block_size, scheduler.can_go_back
        )

    def holdings(self) -> list[Holding]:
        """Every tenant that was here of late."""
        return [self._holding(tenant) for tenant in self.book.presence.active()]

    def excess(self, tenant: str, part: float) -> float:
        """By how much the tenant's decodes will have more than its part of all time, with one
        request more; over its weight."""
        if self.config.fairness != Fairness.GPU_TIME:
            return 0.0
        census = self.reader.census
        decodes = census.decodes.get(tenant, 0)
        prompts = census.seats.get(tenant, 0) - decodes
        context = census.context_of(tenant)
        excess = self.book.foresight.excess(decodes, context, prompts + 1, part)
        return excess / self.book.ledger.divisor(tenant)

    def absent(self, share: Mapping[str, int]) -> Sequence[Holding]:
        """Tenants that were here a moment ago, hold less than this share and have nothing
        waiting."""
        seats = self.reader.census.seats
        return [
            self._holding(tenant)
            for tenant in self.book.presence.active()
            if seats.get(tenant, 0) < share[tenant] and not self._waiting(tenant)
        ]

    def _waiting(self, tenant: str) -> int:
        if tenant not in self.queue.lanes or not self.ready(tenant):
            return 0
        return self.queue.counts[tenant]

    def _holding(self, tenant: str) -> Holding:
        return Holding(
            self.book.ledger.rank(tenant),
            self.reader.census.seats.get(tenant, 0),
            self._waiting(tenant),
            self.book.presence.peak(tenant),
            self.config.weight_of(tenant),
        )
