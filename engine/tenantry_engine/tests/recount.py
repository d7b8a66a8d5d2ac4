"""Random loads in which every counter is counted a second time, from scratch, after every step."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tenantry_api.choices import Fairness, Ordering
from tenantry_core.ordering import ORDERINGS
from tenantry_engine.config import EngineConfig
from tenantry_engine.tests import harness

TENANTS: Final = ("gold", "silver", "free")
WEIGHTS: Final = (
    {"gold": 3.0, "silver": 1.0, "free": 0.0},
    {"gold": 1.0, "silver": 1.0, "free": 1.0},
    {"gold": 1.0, "silver": 4.0, "free": 2.0},
)
SIZE: Final = harness.Size(seats=12, tokens=256, blocks=64)
LIVE: Final = 40
LIMIT: Final = 20_000
"""Steps within which the requests at hand must end when no more come."""
OUTPUT_PRICE: Final = 2
"""A token of output counts twice where the policy is `fairness: Tokens`."""


@dataclass(frozen=True)
class Cell:
    """One combination that is played."""

    ordering: str
    fairness: Fairness
    use_async: bool

    @property
    def name(self) -> str:
        """For a table."""
        return f"{self.ordering}, {self.fairness}, {'async' if self.use_async else 'sync'}"


CELLS: Final = tuple(itertools.starmap(Cell, itertools.product(ORDERINGS, Fairness, (False, True))))


@dataclass
class Audit(harness.Engine):
    """An engine that recounts after each step. `between` is called while a step is under way."""

    size: harness.Size = SIZE
    charged: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    between: Callable[[], None] = lambda: None
    compared: int = 0
    """Steps after which the sums over what runs were compared."""

    def watch(self) -> None:
        """Add up by itself what the ledger is told to charge."""
        ledger = self.conductor.book.ledger
        charge = ledger.charge

        def added(tenant: str, cost: float) -> None:
            self.charged[tenant] += cost
            charge(tenant, cost)

        ledger.charge = added

    def step(self) -> harness.Shot:
        """One step, with everything recounted while it is under way and after it."""
        output = self.scheduler.schedule()
        shot = harness.Shot(dict(output.num_scheduled_tokens), self._seconds(output))
        self.log.append(shot)
        self._undone(output)
        self.flying.append((output, self._answer(output), shot.seconds))
        self.between()
        while self.flying and (len(self.flying) >= self.depth or not shot.tokens):
            self._land()
        self._census()
        self._queues()
        self._stands()
        self._blocks()
        return shot

    def _census(self) -> None:
        """The sums over what runs, wherever they claim to be right."""
        census, running = self.conductor.reader.census, self.scheduler.running
        if not census.sure or len(running) != census.base:
            return
        decodes = [each for each in running if not each.is_prefill_chunk]
        context: Counter[str] = Counter()
        for each in decodes:
            context[harness.tenant_of(each)] += each.num_computed_tokens
        assert census.seats == Counter(map(harness.tenant_of, running))
        assert census.decodes == Counter(map(harness.tenant_of, decodes))
        assert census.context == context
        assert census.total == sum(context.values())
        assert census.prompts == [each for each in running if each.is_prefill_chunk]
        self.compared += 1

    def _undone(self, output: Any) -> None:
        """Nobody that lost its place in this step has anything left in its output."""
        scheduled = output.num_scheduled_tokens
        running = {each.request_id for each in self.scheduler.running}
        assert set(scheduled) <= running, "a request that is not running was scheduled"
        assert set(output.scheduled_spec_decode_tokens) <= set(scheduled)
        cached = output.scheduled_cached_reqs.req_ids
        new = [each.req_id for each in output.scheduled_new_reqs]
        assert sorted([*cached, *new]) == sorted(scheduled)
        assert sum(scheduled.values()) == output.total_num_scheduled_tokens <= self.size.tokens
        assert len(running) == len(self.scheduler.running) <= self.size.seats

    def _queues(self) -> None:
        """Our queue's counters, and that every live request stands in exactly one place."""
        scheduler, queue = self.scheduler, self.conductor.queue
        waiting = list(queue)
        assert Counter(map(harness.tenant_of, waiting)) == queue.counts
        assert len(queue) == len(waiting)
        everywhere = [*waiting, *scheduler.running, *scheduler.kv_holding_waiting]
        assert sorted(each.request_id for each in everywhere) == sorted(scheduler.requests)

    def _stands(self) -> None:
        """Who is here, waits below its share, holds more than it, or asks for no more."""
        standing, census = self.conductor.standing, self.conductor.reader.census
        running = self.scheduler.running
        if not census.sure or len(running) != census.base:
            return
        seats = Counter(map(harness.tenant_of, running))
        waits = Counter(map(harness.tenant_of, self.conductor.queue))
        share = standing.share
        assert standing.present() == seats.keys() | waits.keys()
        assert standing.below() == {t for t in waits if seats[t] < share.get(t, 0)}
        assert standing.above() == {t for t in seats if seats[t] > share.get(t, 0)}
        assert standing.light() == {t for t in seats if seats[t] + waits[t] <= share.get(t, 0)}
        ask = [t for t in seats | waits if not waits[t] or seats[t] < share.get(t, 0)]
        assert standing.together() == sum(min(seats[t] + waits[t], share.get(t, 0)) for t in ask)

    def _blocks(self) -> None:
        """A KV block is held by a running request, or free."""
        manager = self.scheduler.kv_cache_manager
        held = {
            block
            for name in self.scheduler.requests
            for group in manager.get_block_ids(name)
            for block in group
        }
        pool = manager.block_pool
        assert len(held) == pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()


class Maker:
    """Makes the requests of a load."""

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:
        """One request, with so many tokens of output."""
        return harness.request(name, prompt, output, tenant=tenant)

    def before(self, load: "Load") -> None:
        """Called before each step."""


@dataclass
class Load:
    """Requests at random times, some in pairs that nothing but the id tells apart, and what may
    befall an engine: clients that hang up, a cache that is reset, a pause, other weights."""

    engine: Audit
    rng: random.Random
    config: EngineConfig
    maker: Maker = field(default_factory=Maker)
    aborted: set[str] = field(default_factory=set)
    wanted: dict[str, int] = field(default_factory=dict)
    pausing: int = 0

    def before(self) -> None:
        """What happens before a step."""
        self.maker.before(self)
        if self.rng.random() < 0.25 and len(self.engine.scheduler.requests) < LIVE:
            self.arrive()
        if self.rng.random() < 0.02:
            self.abort()
        scheduler = self.engine.scheduler
        if self.rng.random() < 0.004 and not len(scheduler.kv_holding_waiting):
            scheduler.reset_prefix_cache(reset_running_requests=True)
        if self.rng.random() < 0.004:
            weights = self.rng.choice(WEIGHTS)
            self.config = replace(self.config, weights=weights)
            self.engine.conductor.latest = self.config
        self._pause()

    def between(self) -> None:
        """What happens between a step and its output."""
        if self.rng.random() < 0.02:
            self.abort()

    def arrive(self) -> None:
        """One request of a tenant, or two that are alike."""
        tenant = self.rng.choice(TENANTS)
        prefix = harness.own_ids(f"prefix {self.rng.randrange(3)}", 250)
        number = len(self.wanted)
        prompt = [*prefix[: self.rng.randrange(5, 250)], number % 1000 + 3]
        output = self.rng.randrange(1, 60)
        for name in (f"{child}_{number}" for child in range(self.rng.choice((1, 1, 2)))):
            each = self.maker.request(name, prompt, output, tenant)
            self.wanted[name] = output if each.pooling_params is None else 0
            self.engine.add(each)

    def abort(self) -> None:
        """Somebody hangs up, whatever state its request is in."""
        scheduler = self.engine.scheduler
        if not scheduler.requests:
            return
        name = self.rng.choice(sorted(scheduler.requests))
        self.aborted.add(name)
        self.engine.count_preemptions(scheduler.requests[name].take_events())
        scheduler.finish_requests(name, harness.ABORTED)
        scheduler.finish_requests(name, harness.ABORTED)

    def end(self) -> None:
        """No more requests; those at hand end."""
        self.engine.scheduler.set_pause_state(harness.UNPAUSED)
        self.engine.between = lambda: None
        for _ in range(LIMIT):
            if not self.engine.scheduler.requests and not self.engine.flying:
                break
            self.maker.before(self)
            self.engine.step()
        else:
            raise AssertionError(f"still at work after {LIMIT} steps")
        self.engine.step()

    def _pause(self) -> None:
        scheduler = self.engine.scheduler
        if self.pausing:
            self.pausing -= 1
            if not self.pausing:
                scheduler.set_pause_state(harness.UNPAUSED)
        elif self.rng.random() < 0.003:
            scheduler.set_pause_state(self.rng.choice((harness.PAUSED, harness.PAUSED_NEW)))
            self.pausing = self.rng.randrange(1, 8)


def configuration(ordering: str, fairness: Fairness = Fairness.GPU_TIME) -> EngineConfig:
    """Three tenants under that ordering; the last has weight 0."""
    return EngineConfig(
        weights=WEIGHTS[0], tenants=TENANTS, fairness=fairness, ordering=Ordering(ordering)
    )


def play(cell: Cell, steps: int, seed: int = 1) -> Load:
    """So many steps of a random load, then to the end. Raises AssertionError where a counter
    drifted."""
    config = configuration(cell.ordering, cell.fairness)
    engine = Audit(None, depth=2 if cell.use_async else 1)
    harness.equip(engine, config, SIZE, use_async=cell.use_async)
    load = run(engine, config, steps, seed)
    settle(load, cell.fairness)
    assert engine.preempted > 0, "nothing was preempted, so little was shown"
    return load


def run(
    engine: Audit, config: EngineConfig, steps: int, seed: int = 1, maker: Maker | None = None
) -> Load:
    """So many steps of a random load on an engine that has its scheduler, then to the end."""
    engine.watch()
    load = Load(engine, random.Random(seed), config, maker or Maker())  # noqa: S311 - a load
    engine.between = load.between
    for _ in range(steps):
        load.before()
        engine.step()
    load.end()
    return load


def settle(load: Load, fairness: Fairness) -> None:
    """What must be true when all is over."""
    engine = load.engine
    harness.assert_empty(engine)
    ended = set(engine.finished) - load.aborted
    assert ended == set(load.wanted) - load.aborted, "a request has got lost"
    got = {name: engine.tokens_by_request[name] for name in ended}
    assert got == {name: load.wanted[name] for name in ended}
    tokens = engine.values("tenantry_tokens")
    output = {tenant: tokens[tenant, "output"] for tenant in TENANTS}
    assert output == {tenant: engine.generated[tenant] for tenant in TENANTS}
    assert sum(engine.values("tenantry_preemptions").values()) == engine.preempted
    seconds = engine.values("tenantry_step_seconds_sum")[()]
    assert _near(sum(engine.values("tenantry_gpu_seconds").values()), seconds)
    _charges(engine, fairness, tokens, seconds)


def _charges(
    engine: Audit, fairness: Fairness, tokens: dict[tuple[str, ...], float], seconds: float
) -> None:
    if fairness is not Fairness.TOKENS:
        assert _near(sum(engine.charged.values()), seconds), "charged is not the time of the steps"
        return
    for tenant in TENANTS:
        due = tokens[tenant, "prompt"] + OUTPUT_PRICE * tokens[tenant, "output"]
        assert _near(engine.charged[tenant], due), f"{tenant}: charged is not what was made"


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1.0)
