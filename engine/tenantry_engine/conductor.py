"""Around vLLM's `schedule()`: what is decided before it, and what is put back and booked after it.

One conductor belongs to one scheduler and is called by it only, on the engine's thread. The one
thing that comes from another thread is `latest`, the configuration to use from the next step on.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tenantry_api.choices import Fairness, Mode, Ordering
from tenantry_core import lengths as core_lengths
from tenantry_core import stepmodel
from tenantry_core.budget import Ceiling, Packer, Relief
from tenantry_core.lengths import Lengths
from tenantry_core.ordering import Order, Parameters
from tenantry_core.stepmodel import Load, StepTimes
from tenantry_engine import turn
from tenantry_engine.book import Book
from tenantry_engine.config import EngineConfig
from tenantry_engine.delays import Delays
from tenantry_engine.entry import Entry
from tenantry_engine.fitting import Fitting
from tenantry_engine.gate import AHEAD, Gate, Place, Shares
from tenantry_engine.jobs import Jobs
from tenantry_engine.lanes import Lane
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.reclaim import Reclaim
from tenantry_engine.stage import Stage
from tenantry_engine.standing import Standing
from tenantry_engine.translate import Reader, generated
from tenantry_engine.turn import Head, Member, Scene, Turn
from tenantry_engine.view import View
from tenantry_engine.waiting import TenantQueue

REPORT_SECONDS: Final = 1.0
SHORTEST_DELAY: Final = 0.001  # a promise of no delay at all is broken by every step
RENEWED: Final = 4
"""Keys that are made anew in a step while there are some out of date."""


@dataclass(frozen=True)
class Setup:
    """What a scheduler is given beside vLLM's own arguments. `clock` is monotonic, in seconds;
    `lengths` predicts output lengths, `model` the time of steps; `parameters` are the orderings';
    without `growth` a request is admitted when it fits now, without `pace` as fast as vLLM can."""

    config: EngineConfig
    metrics: EngineMetrics
    clock: Callable[[], float] = time.monotonic
    lengths: Lengths = field(default_factory=core_lengths.Learned)
    model: StepTimes = field(default_factory=stepmodel.Learned)
    parameters: Parameters = field(default_factory=Parameters)
    growth: bool = True
    pace: bool = True


class Conductor:
    """Decides for one scheduler, a `FairScheduler`."""

    def __init__(self, scheduler: Any, setup: Setup) -> None:
        self.latest = setup.config
        self.reader = Reader()
        self.book = Book(setup.config, setup.metrics, setup.model)
        self.queue = TenantQueue(self.reader.tenant, self._choose)
        self.cause = "reset"
        """Why requests are sent back at the moment; outside a step only a cache reset does it."""
        self._scheduler = scheduler
        self._clock = setup.clock
        self._config = setup.config
        self._parameters = setup.parameters
        self._packer = Packer(setup.model)
        self._relief = Relief()
        self._jobs = Jobs(setup.lengths, setup.model, self.reader.tenant, scheduler)
        self._view = View(scheduler, self.reader, self.queue, self.book)
        self._fitting = Fitting(self._view, self._jobs.remaining, growth=setup.growth)
        self._entry = Entry(self._view, self._fitting, setup.model)
        self._census = self.reader.census
        self.standing = Standing(self._census, self.queue, self._excess)
        self.reclaim = Reclaim(self._view, setup.model, self.standing, self.book.inverted)
        self._shares = Shares()
        self._delays = Delays(setup.model, self.reader.tenant, self._company)
        self._stale: dict[str, None] = {}  # in order, which a set has not
        self._reported = float("-inf")
        self._stage = Stage(scheduler, paced=setup.pace)
        self._obey(setup.config)

    # --- what the scheduler tells ----------------------------------------------

    def before(self) -> None:
        """A step begins: decide what it is to look like, and set vLLM up for it."""
        now = self.queue.now = self._clock()
        if self.latest is not self._config:
            self._obey(self.latest)
        self._attend(now)
        self.cause = "no_blocks"
        several = len(self.book.presence.active()) > 1
        enforces = self._config.mode == Mode.ENFORCE and self._scheduler.unpaused()
        ordered = self.queue.ordered = enforces and (several or self._chosen)
        if self._stale:
            self._rekey()
        if ordered:
            self.queue.refresh(RENEWED)
        if enforces and several:
            plan = self._plan(now)
            self.queue.offered = None
            if plan is not None:
                self._stage.set(plan)
                self._packer.ran(plan.probe)
        else:
            self.reclaim.reset()
            if enforces and self._chosen:
                # One tenant whose order is not vLLM's: order and pace are decided, no more.
                self._entry.open_one()
                self._stage.keep_pace(self._census, self._config.ordering)

    def after(self) -> None:
        """vLLM has scheduled, or failed to: put everything back."""
        self.cause = "reset"
        self._stage.clear()
        if self._entry.step is not None:
            self._entry.close()
            if self.reclaim:
                new = self._scheduler.running[self._census.base :]
                self.reclaim.served([self.reader.tenant(request) for request in new])
        self.queue.reconsider()

    def arrived(self, request: Any) -> None:
        """A request is in the queue now."""
        now = self._clock()
        self._jobs.arrived(request)
        self._delays.arrived(request, now)
        tenant = self.reader.tenant(request)
        count = self.queue.counts[tenant] + self._census.seats.get(tenant, 0)
        self.book.presence.asks(now, tenant, count)
        self.book.presence.together.see(now, self.standing.together())

    def gone(self, request: Any, *, by_itself: bool) -> None:
        """A request is through; `by_itself`: its output ended it, nobody aborted it."""
        tenant = self.reader.tenant(request)
        self.reader.ended(request, by_itself=by_itself)
        if by_itself and self._jobs.finished(request, tenant):
            self._stale[tenant] = None
        self._jobs.forget(request.request_id)
        self._delays.gone(request.request_id)

    def begun(self, output: Any) -> None:
        """The step has been scheduled."""
        now = self._clock()
        reading = self.reader.read(output, self._scheduler)
        self._stage.ran(reading, len(self.queue))
        self.book.begun(output, reading, now)
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

    @property
    def _chosen(self) -> bool:
        """Whether the policy's order holds with one tenant too: it was chosen for it."""
        config = self._config
        return config.ordering != Ordering.COST or config.fairness == Fairness.NONE

    def _obey(self, config: EngineConfig) -> None:
        """This configuration is in force."""
        self.book.reconfigure(config)
        self._config = self._view.config = config
        self._shares = Shares()
        self._jobs.weight = config.weight_of
        self._delays.reset(config.share_of)
        enforces = config.mode == Mode.ENFORCE
        self.queue.split(by_tenant=enforces and config.fairness != Fairness.NONE)
        name = str(config.ordering)
        if self._jobs.order is None or self._jobs.order.name != name:
            self._jobs.order = Order(name, self._parameters)
        self.queue.order(self._jobs.key if enforces else None)

    def _rekey(self) -> None:
        for tenant in self._stale:
            self.queue.rekey(tenant)
        self._stale.clear()

    def _attend(self, now: float) -> None:
        """Who is here. In a step that is like the last one nobody has come or gone."""
        self._census.take(self._scheduler.running)
        holding = self._scheduler.kv_holding_waiting
        others = self.reader.count(holding) if holding else ()
        self.book.attend(now, self.standing.present(others))

    def _plan(self, now: float) -> Turn | None:
        """A step that several tenants share."""
        if self._config.fairness == Fairness.NONE:
            self._entry.open_one()
            return self._with_room(self._arranged(None))
        scheduler, presence = self._scheduler, self.book.presence
        share = self._shares.of(scheduler.seats(), presence.active(), self._config.weight_of)
        self.standing.judge(share)
        absent = partial(self._view.absent, share)
        gate = Gate(share, self._census.seats, self._view.free_seats(), absent)
        gate.later = self.standing.later()
        gate.together = presence.together.of(now) - self.standing.together()
        self._entry.begin(gate)
        if self.reclaim.watch(now, gate, self._shares):
            self._recall(now, gate)
        self._entry.open(self._has_its_share)
        return self._with_room(self._arranged(self._head()))

    def _excess(self, tenant: str) -> float:
        return self._view.excess(tenant, self._shares.parts.get(tenant, 1.0))

    def _has_its_share(self, tenant: str, need: int) -> bool:
        """Whether the tenant stays within its part of the KV cache with so many blocks more."""
        held = self._census.context_of(tenant) / self._scheduler.block_size
        part = self._shares.parts.get(tenant, 0.0)
        return bool(held + need <= part * self._scheduler.blocks())

    def _arranged(self, head: Head | None) -> Turn | None:
        scheduler, census = self._scheduler, self._census
        if not census.prompts and self.queue.choice() is None:
            return None
        scene = Scene(
            running=scheduler.running,
            census=census,
            prompts=turn.by_rank(census.prompts, self._view.rank) if census.prompts else (),
            head=head,
            tokens=scheduler.decode_tokens(census),
            in_order=census.behind(scheduler.running),
            precedes=self._precedes,
            light=self._light,
        )
        plan: Turn = turn.arrange(scene, self._packer, self._ceiling)
        if plan.hidden:
            plan = turn.showing(plan, scheduler.may_hide)
        if scheduler.divisible():
            return plan
        return turn.uncapped(plan, scheduler.max_num_scheduled_tokens)

    def _ceiling(self, protecting: bool) -> Ceiling:
        return Ceiling(
            self._config.step_budget,
            self._scheduler.max_num_scheduled_tokens,
            protecting,
            share=self._shares.largest,
            late=self._late() / max(self._config.token_delay, SHORTEST_DELAY),
            raised=self._relief.factor,
        )

    def _late(self) -> float:
        """Seconds by which tokens of light tenants are late; only an automatic budget asks. Tenants
        with something waiting do not count: smaller steps would make it wait longer."""
        if self._config.step_budget is not None:
            return 0.0
        light = self._light()
        if light:
            waiting, decoding = self.queue.counts, self._census.decodes
            light = [t for t in light if t in decoding and t not in waiting]
        return self._delays.worst(self._scheduler.running, light, self.queue.now)

    def _company(self, tenant: str) -> Load:
        census = self._census
        return Load(decodes=census.decodes.get(tenant, 1), context=census.context_of(tenant))

    def _precedes(self, tenants: Collection[str], place: Place) -> bool:
        if self._config.fairness == Fairness.NONE:
            return False
        # Who is served in turns with another is now before and now behind it, by a step or two.
        return self.book.ledger.precedes(tenants, place, AHEAD)

    def _light(self) -> Collection[str]:
        return () if self._config.fairness == Fairness.NONE else self.standing.light()

    def _with_room(self, plan: Turn | None) -> Turn | None:
        """The plan, or one without those whose KV blocks the others need; then nobody is
        admitted."""
        scheduler = self._scheduler
        tokens = scheduler.decode_tokens(self._census) if plan is None else plan.tokens
        free, block = scheduler.free_blocks(), scheduler.block_size
        # Every request may begin a block.
        if free > len(scheduler.running) + tokens // block:
            return plan
        full = Turn(max(tokens, 1)) if plan is None else plan
        over = turn.overflow(full, scheduler.running, self._view.members(), self._view.room())
        if not over:
            return plan
        self._send_back(over)
        self._entry.shut()
        return self._arranged(None)

    def _recall(self, now: float, gate: Gate) -> None:
        """Send back what a tenant below its share needs; only that tenant enters then."""
        found = self.reclaim.victims(now)
        if found is None:
            return
        tenant, victims = found
        self.cause = "seat"
        self._send_back(victims)
        self.cause = "no_blocks"
        gate.only = tenant
        gate.free = self._view.free_seats()

    def _send_back(self, victims: Sequence[Member]) -> None:
        for victim in victims:
            self._scheduler.send_back(victim.request)
        self._census.take(self._scheduler.running)
        step = self._entry.step
        if step is not None and self._config.fairness != Fairness.NONE:
            step.gate.running = self._census.seats

    def _head(self) -> Head | None:
        """What would be admitted in this step."""
        request = self.queue.choice()
        if request is None or not self._scheduler.ready(request):
            return None
        return self._view.head(request)

    def _choose(self, lanes: Mapping[str, Lane]) -> Any | None:
        return self._entry.choose(lanes)

    # --- after the step --------------------------------------------------------

    def _report(self, now: float) -> None:
        if now - self._reported < REPORT_SECONDS and self._scheduler.requests:
            return
        self._reported = now
        scheduler = self._scheduler
        self.reader.keep(scheduler.requests)
        self._fitting.forget(scheduler.requests)
        if self._jobs.refresh():
            self._stale.update(dict.fromkeys(self.queue.lanes))
        self._relief.see(self.reclaim.waited(now), now)
        running = self.reader.count(scheduler.running)
        waiting = self.queue.counts + self.reader.count(scheduler.kv_holding_waiting)
        self.book.presence.see(now, running, waiting)
        self.book.attend(now, frozenset((*running, *waiting)))
        self.book.ledger.settle(self.queue.filled_since(now - REPORT_SECONDS))
        self.book.tidy(now)
        self.book.report()
