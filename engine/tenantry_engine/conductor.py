"""Around vLLM's `schedule()`: what is decided before it, and what is put back and booked after it.

One conductor belongs to one scheduler and is called by it only, on the engine's thread. The one
thing that comes from another thread is `latest`, the configuration to use from the next step on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenantry_api.choices import Fairness, Mode
from tenantry_core import seats
from tenantry_core.budget import Allowance, Ceiling
from tenantry_core.ledger import FOREGROUND, Rank
from tenantry_core.seats import Holding
from tenantry_core.stepmodel import Load
from tenantry_engine import turn
from tenantry_engine.book import Book
from tenantry_engine.config import EngineConfig
from tenantry_engine.gate import AHEAD, SEAT_BOUND, Admission, Gate, Waits
from tenantry_engine.lanes import Lane
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.presence import Presence
from tenantry_engine.translate import Reader, generated
from tenantry_engine.turn import Head, Member, Room, Scene, Turn
from tenantry_engine.waiting import TenantQueue, first

RECALL_SHARE: Final = 0.05
RECALL_WINDOW: Final = 60.0
"""Doing again what recalled requests had done may take this part of any window."""
REPORT_SECONDS: Final = 1.0
LOOK_AHEAD: Final = 8
"""Requests of one tenant that are looked at for one that fits."""
PATIENCE: Final = 16
"""Steps for which a request that vLLM turned away is passed over."""
NOBODY: Final = Rank(FOREGROUND, float("-inf"), "")
"""A rank for all where tenants aren't told apart."""


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
        self.queue = TenantQueue(self.reader.tenant, self._choose)
        self.cause = "reset"
        """Why requests are sent back at the moment; outside a step only a cache reset does it."""
        self._scheduler = scheduler
        self._clock = setup.clock
        self._config = setup.config
        self._allowance = Allowance(RECALL_SHARE, RECALL_WINDOW)
        self._waits = Waits()
        self._shares = Shares()
        self._reported = float("-inf")
        self._refusals = Refusals()
        self._census = self.reader.census
        self._present: frozenset[str] = frozenset()
        self._version = (-1, -1)
        self._nobody_below: tuple[object, ...] = ()
        self._played: Played | None = None
        self._entry: Entry | None = None
        self.queue.split(by_tenant=_divides(setup.config))

    def before(self) -> None:
        """A step begins: decide what it is to look like, and set vLLM up for it."""
        now = self.queue.now = self._clock()
        self._take_policy()
        self._attend(now)
        self.cause = "no_blocks"
        if self._decides():
            self._play(self._plan(now))
        elif self._waits:
            self._waits = Waits()  # in a pause nobody waits for anybody

    def after(self) -> None:
        """vLLM has scheduled, or failed to: put everything back."""
        self.cause = "reset"
        if self._played is not None:
            self._put_back(self._played)
            self._played = None
        self._entry = None
        self.queue.reconsider()

    def arrived(self, request: Any) -> None:
        """A request is in the queue now."""
        tenant = self.reader.tenant(request)
        count = self.queue.counts[tenant] + self._census.seats.get(tenant, 0)
        self.book.presence.asks(self._clock(), tenant, count)

    def begun(self, output: Any) -> None:
        """The step has been scheduled."""
        now = self._clock()
        self.book.begun(output, self.reader.read(output, self._scheduler), now)
        self.book.presence.scheduled(now, self.queue.counts)
        if not output.num_scheduled_tokens:
            self._report(now)

    def ended(self, output: Any, outputs: Mapping[int, Any], now: float) -> None:
        """The output of a step was back at `now` and has been worked in."""
        self.book.ended(output, generated(outputs, self.reader.owners), now)
        self._report(now)

    def now(self) -> float:
        """The conductor's clock."""
        return self._clock()

    # --- before the step -----------------------------------------------------

    def _take_policy(self) -> None:
        if self.latest is not self._config:
            self._config = self.latest
            self.book.reconfigure(self._config)
            self._shares = Shares()
            self.queue.split(by_tenant=_divides(self._config))

    def _attend(self, now: float) -> None:
        """Who is here. In a step that is like the last one nobody has come or gone."""
        scheduler, census = self._scheduler, self._census
        census.take(scheduler.running)
        holding = scheduler.kv_holding_waiting
        version = (census.version, self.queue.version)
        if version != self._version or holding:
            self._version = (-1, -1) if holding else version
            self._present = frozenset(census.seats.keys() | self.queue.counts.keys())
            if holding:
                self._present = self._present.union(self.reader.count(holding))
        self.book.attend(now, self._present)

    def _decides(self) -> bool:
        return (
            self._config.mode == Mode.ENFORCE
            and len(self.book.presence.active()) > 1
            and self._scheduler.unpaused()
        )

    def _plan(self, now: float) -> Turn | None:
        scheduler = self._scheduler
        if self._config.fairness == Fairness.NONE:
            return self._arranged(None)
        share = self._shares.of(scheduler.seats(), self.book.presence, self._config)
        gate = Gate(share, self._census.seats, self._free_seats(), self._absent)
        self._entry = Entry(gate)
        self.queue.reconsider()
        self._watch(now, gate)
        if self._waits:
            self._recall(now, gate)
        self._open(gate)
        return self._fitting(self._arranged(self._head()))

    def _watch(self, now: float, gate: Gate) -> None:
        """Who waits below its share, and for how long."""
        gate.below = self._below(gate)
        if not self._waits and len(gate.below) <= gate.free:
            return  # there is a seat for each
        line = self.book.ledger.line
        most = max(line(gate.running), default=NOBODY)
        self._waits.see(now, line(gate.below), self._fresh(now, gate), most)
        gate.late = self._waits.late(now)
        for tenant in self._waits.inverted(now):
            self.book.inverted(tenant)

    def _below(self, gate: Gate) -> frozenset[str]:
        """Tenants that wait and hold less than their share of the seats."""
        at = (self._census.moves, self.queue.version, gate.share)
        if self._nobody_below == at:
            return frozenset()
        running, share = gate.running, gate.share
        below = [t for t in self.queue.lanes if running.get(t, 0) < share[t]]
        if not below:
            self._nobody_below = at
        return frozenset(t for t in below if self._ready(t))

    def _fresh(self, now: float, gate: Gate) -> frozenset[str]:
        """Of those below their share, who runs nothing and has been waiting for a moment only."""
        since = self.queue.lanes
        return frozenset(
            t for t in gate.below if t not in gate.running and since[t].born + SEAT_BOUND >= now
        )

    def _open(self, gate: Gate) -> None:
        """From here on the queue offers what may be admitted."""
        entry = self._entry
        if entry is None or gate.free < 1 or gate.closed:
            return
        lanes, ledger = self.queue.lanes, self.book.ledger
        line = ledger.line(lanes.keys() - gate.below if gate.below else lanes)
        line += ledger.line(gate.below, AHEAD)
        entry.admission = Admission(line, gate, self._first)

    def _arranged(self, head: Head | None) -> Turn | None:
        scheduler, census = self._scheduler, self._census
        offered = self.queue.choice() is not None
        if not census.prompts and not offered:
            return None
        ceiling = Ceiling(self._config.step_budget, scheduler.max_num_scheduled_tokens)
        scene = Scene(
            running=scheduler.running,
            census=census,
            prompts=turn.by_rank(census.prompts, self._rank) if census.prompts else (),
            head=head,
            tokens=scheduler.decode_tokens(census),
            in_order=census.behind(scheduler.running),
            precedes=self.book.ledger.precedes,
            light=self._light,
        )
        plan: Turn = turn.arrange(scene, self.book.model, ceiling)
        if plan.hidden:
            plan = turn.showing(plan, scheduler.may_hide)
        return plan if scheduler.divisible() else turn.uncapped(plan, ceiling.tokens)

    def _rank(self, request: Any) -> Rank:
        """The rank of a request's tenant; without fairness between them all are equal."""
        if self._config.fairness == Fairness.NONE:
            return NOBODY
        return self.book.ledger.rank(self.reader.tenant(request))

    def _light(self) -> list[str]:
        if self._entry is None:
            return []
        share, waiting = self._entry.gate.share, self.queue.counts
        seats = self._census.seats.items()
        return [t for t, count in seats if count + waiting.get(t, 0) <= share.get(t, 0)]

    def _fitting(self, plan: Turn | None) -> Turn | None:
        """The plan, or one without those whose KV blocks the others need; then nobody is
        admitted."""
        scheduler, entry = self._scheduler, self._entry
        tokens = scheduler.decode_tokens(self._census) if plan is None else plan.tokens
        free, block = scheduler.free_blocks(), scheduler.block_size
        # Every request may begin a block.
        if entry is None or free > len(scheduler.running) + tokens // block:
            return plan
        full = Turn(max(tokens, 1)) if plan is None else plan
        over = turn.overflow(full, scheduler.running, self._members(), self._room())
        if not over:
            return plan
        self._send_back(over)
        entry.gate.closed = True
        entry.admission = None
        self.queue.reconsider()
        return self._arranged(None)

    def _recall(self, now: float, gate: Gate) -> None:
        """Recall what the tenant that waits longest with good reason needs, within the
        allowance."""
        ripe = next((t for t in self._waits.ripe(now) if t in self.queue.lanes), None)
        if ripe is None:
            return
        head = self._as_head(self.queue.lanes[ripe].head)
        room = self._room()
        if room.free_seats > 0 and room.free_blocks >= head.blocks:
            return
        victims = turn.recall(head, self._members(), room, self._holdings())
        cost = sum(
            self.book.model.predict(Load(prefill=victim.request.num_computed_tokens))
            for victim in victims
        )
        if not victims or not self._allowance.allows(cost, now):
            return
        self._allowance.spend(cost, now)
        self.cause = "seat"
        self._send_back(victims)
        self.cause = "no_blocks"
        gate.only = ripe
        gate.free = self._free_seats()

    def _send_back(self, victims: Sequence[Member]) -> None:
        for victim in victims:
            self._scheduler.send_back(victim.request)
        self._census.take(self._scheduler.running)
        if self._entry is not None:
            self._entry.gate.running = self._census.seats

    def _head(self) -> Head | None:
        """What would be admitted in this step."""
        request = self.queue.choice()
        return (
            None
            if request is None or not self._scheduler.ready(request)
            else self._as_head(request)
        )

    def _ready(self, tenant: str) -> bool:
        """Whether vLLM would admit the tenant's head: not while it waits for its grammar."""
        return bool(self._scheduler.ready(self.queue.lanes[tenant].head))

    def _as_head(self, request: Any) -> Head:
        rank = self.book.ledger.rank(self.reader.tenant(request))
        tokens = request.num_tokens - request.num_computed_tokens
        return Head(request, rank, tokens, self._scheduler.blocks_for(request))

    # --- what is there ---------------------------------------------------------

    def _members(self) -> list[Member]:
        scheduler = self._scheduler
        return turn.members(
            scheduler.running, self._rank, scheduler.block_size, scheduler.can_go_back
        )

    def _holdings(self) -> list[Holding]:
        return [self._holding(tenant) for tenant in self.book.presence.active()]

    def _absent(self) -> list[Holding]:
        """Tenants that were here a moment ago and have nothing waiting."""
        lanes = self.queue.lanes
        active = self.book.presence.active()
        return [self._holding(t) for t in active if t not in lanes or not self._ready(t)]

    def _holding(self, tenant: str) -> Holding:
        waiting = self.queue.counts.get(tenant, 0) if tenant in self.queue.lanes else 0
        if waiting and not self._ready(tenant):
            waiting = 0
        return Holding(
            self.book.ledger.rank(tenant),
            self._census.seats.get(tenant, 0),
            waiting,
            self.book.presence.peak(tenant),
            self._config.weight_of(tenant),
        )

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

    # --- inside the step -------------------------------------------------------

    def _choose(self, lanes: Mapping[str, Lane]) -> Any | None:
        """What the queue offers: with one lane its head, else whoever may enter."""
        entry = self._entry
        if entry is None:
            return first(lanes)
        if entry.admission is None:
            return None
        self._settle(entry, entry.admission)
        entry.offer = entry.admission.next()
        return entry.offer

    def _settle(self, entry: "Entry", admission: Admission) -> None:
        """The last offer was admitted, or else vLLM passed it over."""
        running = self._scheduler.running
        if entry.offer is None or not running or running[-1] is not entry.offer:
            return
        tenant = self.reader.tenant(entry.offer)
        if entry.gate.free == 1:
            entry.gate.take(tenant)
            return
        load = Load(prefill=entry.offer.num_tokens)
        price = self.book.model.predict(load) / self.book.ledger.divisor(tenant)
        admission.taken(tenant, price)

    def _first(self, tenant: str) -> Any | None:
        """The first request of the tenant that can be offered."""
        lane = self.queue.lanes.get(tenant)
        if lane is None:
            return None
        scheduler = self._scheduler
        for request in lane.first(LOOK_AHEAD):
            if self._refusals.holds(request.request_id, scheduler.free_blocks()):
                continue
            if not scheduler.ready(request) or self._fits(request):
                return request
        return None

    def _fits(self, request: Any) -> bool:
        return bool(self._scheduler.blocks_for(request) <= self._scheduler.free_blocks())

    def _play(self, plan: Turn | None) -> None:
        """Set vLLM up for the plan; None: it may go on as it is, and will admit nobody."""
        self.queue.offered = None
        self._refusals.begin()
        if plan is None:
            return
        scheduler = self._scheduler
        knobs = scheduler.turn_knobs(plan.tokens, plan.threshold, len(plan.hidden))
        self._played = Played(plan, scheduler.running, knobs)
        if plan.visible is not None:
            scheduler.running = list(plan.visible)

    def _put_back(self, played: "Played") -> None:
        scheduler, plan = self._scheduler, played.plan
        scheduler.restore_knobs(played.knobs)
        if plan.visible is not None:
            scheduler.running = _restored(
                played.before, plan.hidden, len(plan.visible), scheduler.running
            )
        if self.queue.offered is not None and scheduler.ready(self.queue.offered):
            self._refusals.add(self.queue.offered.request_id, scheduler.free_blocks())
        if self._waits:
            new = scheduler.running[self._census.base :]
            self._waits.served(self.reader.tenant(request) for request in new)

    def _report(self, now: float) -> None:
        if now - self._reported < REPORT_SECONDS and self._scheduler.requests:
            return
        self._reported = now
        scheduler = self._scheduler
        self.reader.keep(scheduler.requests)
        running = self.reader.count(scheduler.running)
        waiting = self.queue.counts + self.reader.count(scheduler.kv_holding_waiting)
        self.book.presence.see(now, running, waiting)
        self.book.attend(now, frozenset((*running, *waiting)))
        self.book.forget(now)
        self.book.report()


@dataclass(slots=True)
class Played:
    """A plan that is being carried out: the running list and the knobs as they were before."""

    plan: Turn
    before: list[Any]
    knobs: tuple[Any, ...]


@dataclass(slots=True)
class Entry:
    """Admission in the step under way: its gate, whose turn it is, and what was offered last."""

    gate: Gate
    admission: Admission | None = None
    offer: Any | None = None


class Refusals:
    """Requests that seemed to fit and that vLLM did not admit. Each is passed over until more
    blocks are free than then, or PATIENCE steps have gone by."""

    def __init__(self) -> None:
        self._step = 0
        self._refused: dict[str, tuple[int, int]] = {}

    def begin(self) -> None:
        """Another step."""
        self._step += 1
        if self._refused:
            past = self._step - PATIENCE
            self._refused = {n: entry for n, entry in self._refused.items() if entry[0] > past}

    def add(self, request: str, free: int) -> None:
        """It was offered in this step and not taken, when so many blocks were free at the end."""
        self._refused[request] = (self._step, free)

    def holds(self, request: str, free: int) -> bool:
        """Whether to pass it over now."""
        entry = self._refused.get(request)
        return entry is not None and free <= entry[1]


class Shares:
    """The seats that each active tenant is entitled to, counted when something has changed."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._share: Mapping[str, int] = {}

    def of(self, total: int, presence: Presence, config: EngineConfig) -> Mapping[str, int]:
        """Seats by tenant."""
        active = presence.active()
        key = (total, active)
        if key != self._key:
            self._key = key
            weights = {tenant: config.weight_of(tenant) for tenant in active}
            self._share = seats.divided(total, weights)
        return self._share


def _divides(config: EngineConfig) -> bool:
    """Whether the queue has a lane for each tenant."""
    return config.mode == Mode.ENFORCE and config.fairness != Fairness.NONE


def _restored(before: list[Any], hidden: Sequence[Any], base: int, after: list[Any]) -> list[Any]:
    """The running list in vLLM's own order, that of admission, without those that were
    preempted. vLLM admits nobody in a step in which it preempts."""
    if len(after) >= base:
        return before + after[base:]
    staying = {id(request) for request in (*hidden, *after)}
    return [request for request in before if id(request) in staying]
