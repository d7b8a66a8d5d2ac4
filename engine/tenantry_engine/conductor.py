"""Around vLLM's `schedule()`: what is decided before it, and what is put back and booked after it.

One conductor belongs to one scheduler and is called by it only, on the engine's thread. The one
thing that comes from another thread is `latest`, the configuration to use from the next step on.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenantry_api.choices import Fairness, Mode
from tenantry_core import ordering
from tenantry_core.budget import Allowance, Ceiling
from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding
from tenantry_core.stepmodel import Load
from tenantry_engine import turn
from tenantry_engine.book import Book
from tenantry_engine.config import EngineConfig
from tenantry_engine.gate import Gate, Waits
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.translate import Reader, generated
from tenantry_engine.turn import Head, Member, Room, Turn
from tenantry_engine.waiting import TenantQueue, first

RECALL_SHARE: Final = 0.05
RECALL_WINDOW: Final = 60.0
"""Doing again what recalled requests had done may take this part of any window."""
REPORT_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Setup:
    """What a scheduler is given beside vLLM's own arguments. `clock` is monotonic, in seconds."""

    config: EngineConfig
    metrics: EngineMetrics
    clock: Callable[[], float] = time.monotonic


class Conductor:
    """Decides for one scheduler, a `FairScheduler`."""

    def __init__(self, scheduler: Any, setup: Setup) -> None:
        self.latest = setup.config
        self.reader = Reader()
        self.book = Book(setup.config, setup.metrics)
        self.queue = TenantQueue(
            self.reader.tenant, ordering.ORDERINGS[ordering.DEFAULT], self._choose
        )
        self.cause = "reset"
        """Why requests are sent back at the moment; outside a step only a cache reset does it."""
        self._scheduler = scheduler
        self._clock = setup.clock
        self._config = setup.config
        self._allowance = Allowance(RECALL_SHARE, RECALL_WINDOW)
        self._waits = Waits()
        self._reported = float("-inf")
        self._blocked: str | None = None
        self._gate: Gate | None = None
        self.queue.split(by_tenant=_divides(setup.config))

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Around one `schedule()`."""
        now = self._clock()
        self._take_policy()
        self._attend(now)
        self.cause = "no_blocks"
        try:
            if self._decides():
                with self._played(self._plan(now)):
                    yield
            else:
                self._waits = Waits()  # in a pause nobody waits for anybody
                yield
        finally:
            self._gate = None
            self.queue.reconsider()
            self.cause = "reset"

    def begun(self, output: Any) -> None:
        """The step has been scheduled."""
        now = self._clock()
        self.book.begun(output, self.reader.served(output, self._scheduler.requests), now)
        self.book.presence.scheduled(now, self.queue.counts)
        if not output.num_scheduled_tokens:
            self._report(now)

    def ended(self, output: Any, outputs: Mapping[int, Any], now: float) -> None:
        """The output of a step was back at `now` and has been worked in."""
        self.book.ended(output, generated(outputs, self.reader.tenants), now)
        self._report(now)

    def now(self) -> float:
        """The conductor's clock."""
        return self._clock()

    # --- before the step -----------------------------------------------------

    def _take_policy(self) -> None:
        if self.latest is not self._config:
            self._config = self.latest
            self.book.reconfigure(self._config)
            self.queue.split(by_tenant=_divides(self._config))

    def _attend(self, now: float) -> None:
        scheduler = self._scheduler
        waiting = self.queue.counts + self.reader.count(scheduler.kv_holding_waiting)
        self.book.attend(now, self.reader.count(scheduler.running), waiting)

    def _decides(self) -> bool:
        return (
            self._config.mode == Mode.ENFORCE
            and len(self.book.presence.active()) > 1
            and self._scheduler.unpaused()
        )

    def _plan(self, now: float) -> Turn:
        if self._config.fairness == Fairness.NONE:
            rank = Rank(0, 0.0, "")
            return self._arranged([Member(r, rank, 0) for r in self._scheduler.running], None)
        members = self._members()
        gate = self._gate = Gate(self._holdings(), self._scheduler.seats(), self._blocked)
        self.queue.reconsider()
        self._waits.see(now, gate.holdings, gate.share)
        gate.late = self._waits.late(now)
        for tenant in self._waits.inverted(now):
            self.book.inverted(tenant)
        members = self._recalled(members, now)
        plan = self._arranged(members, self._head())
        return self._fitting(plan, members)

    def _arranged(self, members: Sequence[Member], head: Head | None) -> Turn:
        scheduler = self._scheduler
        ceiling = Ceiling(self._config.step_budget, scheduler.max_num_scheduled_tokens)
        light = self._gate.light if self._gate is not None else ()
        plan = turn.arrange(members, head, self.book.model, ceiling, light)
        plan = turn.showing(plan, scheduler.may_hide)
        return plan if scheduler.divisible() else turn.uncapped(plan, ceiling.tokens)

    def _fitting(self, plan: Turn, members: Sequence[Member]) -> Turn:
        """The plan, or one without those whose KV blocks the others need; then nobody is
        admitted."""
        over = turn.overflow(plan, members, self._room())
        if not over or self._gate is None:
            return plan
        for victim in over:
            self._scheduler.send_back(victim.request)
        self._gate.closed = True
        self.queue.reconsider()
        return self._arranged([member for member in members if member not in over], None)

    def _recalled(self, members: list[Member], now: float) -> list[Member]:
        """Recall what the tenant that waits longest with good reason needs, within the
        allowance."""
        gate = self._gate
        head = self._wanting(now)
        if gate is None or head is None:
            return members
        victims = turn.recall(head, members, self._room(), gate.holdings)
        cost = sum(
            self.book.model.predict(Load(prefill=victim.request.num_computed_tokens))
            for victim in victims
        )
        if not victims or not self._allowance.allows(cost, now):
            return members
        self._allowance.spend(cost, now)
        self.cause = "seat"
        for victim in victims:
            self._scheduler.send_back(victim.request)
        self.cause = "no_blocks"
        gate.only = head.rank.tenant
        self.queue.reconsider()
        return [member for member in members if member not in victims]

    def _wanting(self, now: float) -> Head | None:
        """The head of the least-served tenant that has waited long enough for a seat of its own."""
        heads = self._ready_heads()
        ripe = next((tenant for tenant in self._waits.ripe(now) if tenant in heads), None)
        return None if ripe is None else self._as_head(heads[ripe])

    def _head(self) -> Head | None:
        """What would be admitted in this step."""
        request = self._choose(self._ready_heads())
        if request is None or request.request_id == self._blocked or self._free_seats() < 1:
            return None
        return self._as_head(request) if self._fits(request) else None

    def _ready_heads(self) -> dict[str, Any]:
        """The heads that vLLM would admit: one that waits for its grammar is not among them."""
        ready = self._scheduler.ready
        return {tenant: head for tenant, head in self.queue.heads().items() if ready(head)}

    def _as_head(self, request: Any) -> Head:
        rank = self.book.ledger.rank(self.reader.tenant(request))
        tokens = request.num_tokens - request.num_computed_tokens
        return Head(request, rank, tokens, self._scheduler.blocks_for(request))

    # --- what is there ---------------------------------------------------------

    def _members(self) -> list[Member]:
        scheduler = self._scheduler
        tenant, block = self.reader.tenant, scheduler.block_size
        owners = [tenant(request) for request in scheduler.running]
        ranks = {owner: self.book.ledger.rank(owner) for owner in set(owners)}
        return [
            Member(
                request,
                ranks[owner],
                -(-request.num_computed_tokens // block),
                scheduler.can_go_back(request),
            )
            for request, owner in zip(scheduler.running, owners, strict=True)
        ]

    def _holdings(self) -> list[Holding]:
        presence, ready = self.book.presence, self._ready_heads()
        holdings = []
        for tenant in presence.active():
            running, waiting = presence.of(tenant)
            waiting = waiting if tenant in ready else 0
            rank, weight = self.book.ledger.rank(tenant), self._config.weight_of(tenant)
            holdings.append(Holding(rank, running, waiting, presence.peak(tenant), weight))
        return holdings

    def _room(self) -> Room:
        scheduler = self._scheduler
        return Room(
            free_seats=self._free_seats(),
            seats=scheduler.seats(),
            free_blocks=scheduler.free_blocks(),
            blocks=scheduler.blocks(),
            block=scheduler.block_size,
        )

    def _free_seats(self) -> int:
        scheduler = self._scheduler
        return int(
            scheduler.seats() - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
        )

    def _fits(self, request: Any) -> bool:
        return bool(self._scheduler.blocks_for(request) <= self._scheduler.free_blocks())

    # --- inside the step -------------------------------------------------------

    def _choose(self, heads: Mapping[str, Any]) -> Any | None:
        gate = self._gate
        if gate is None:
            return first(heads)
        if not heads:
            return None
        ranks = sorted(self.book.ledger.rank(tenant) for tenant in heads)
        admitted = self.reader.count(self._scheduler.running[gate.base :])
        free = self._scheduler.max_num_active_reqs - len(self._scheduler.running)
        free -= self._scheduler.num_waiting_for_streaming_input
        allowed = [heads[r.tenant] for r in ranks if gate.admits(r, ranks[0].band, free, admitted)]
        ready = (r for r in allowed if r.request_id != gate.blocked and self._fits(r))
        return next(ready, allowed[0] if allowed else None)

    @contextlib.contextmanager
    def _played(self, plan: Turn) -> Iterator[None]:
        """Carry the plan out: vLLM schedules inside; afterwards everything is as it was."""
        scheduler = self._scheduler
        before = list(scheduler.running)
        with scheduler.knobs(plan.tokens, plan.threshold, len(plan.hidden)):
            scheduler.running = list(plan.visible)
            if self._gate is not None:
                self._gate.base = len(scheduler.running)
            try:
                yield
            finally:
                scheduler.running = _restored(before, plan.hidden, scheduler.running)
        self._blocked = None
        if self.queue.offered is not None:
            self._blocked = self.queue.offered.request_id
        if self._gate is not None:
            new = scheduler.running[len(before) :]
            self._waits.served(self.reader.count(new))

    def _report(self, now: float) -> None:
        if now - self._reported < REPORT_SECONDS and self._scheduler.requests:
            return
        self._reported = now
        self.reader.keep(self._scheduler.requests)
        self._attend(now)
        self.book.forget(now)
        self.book.report()


def _divides(config: EngineConfig) -> bool:
    """Whether the queue has a lane for each tenant."""
    return config.mode == Mode.ENFORCE and config.fairness != Fairness.NONE


def _restored(before: Sequence[Any], hidden: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """The running list in vLLM's own order, that of admission, without those that were
    preempted."""
    running = {id(request) for request in (*hidden, *after)}
    known = {id(request) for request in before}
    old = [request for request in before if id(request) in running]
    return old + [request for request in after if id(request) not in known]
