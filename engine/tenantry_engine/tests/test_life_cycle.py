"""Random loads with aborts, shared prefixes and little memory: nothing is lost and all adds up."""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenantry_api.choices import Fairness, Mode
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

TENANTS = ("gold", "silver", "free")
CONFIGS = {
    "fair": EngineConfig(weights={"gold": 3, "silver": 1, "free": 0}, tenants=TENANTS),
    "tokens": EngineConfig(weights={"gold": 3}, tenants=TENANTS, fairness=Fairness.TOKENS),
    "one order": EngineConfig(weights={"gold": 3}, tenants=TENANTS, fairness=Fairness.NONE),
    "observed": EngineConfig(weights={"gold": 3}, tenants=TENANTS, mode=Mode.OBSERVE),
}
REQUESTS = 200


@dataclass
class Story:
    """A load and what became of it."""

    engine: Any
    rng: random.Random
    harness: Any
    aborted: set[str] = field(default_factory=set)
    wanted: dict[str, int] = field(default_factory=dict)

    def arrive(self, number: int) -> None:
        """One request of a random tenant; its prompt begins like those of others of that tenant."""
        tenant = self.rng.choice(TENANTS)
        prefix = self.harness.own_ids(f"prefix {self.rng.randrange(3)}", 600)
        prompt = [*prefix[: self.rng.randrange(5, 600)], number % 1000 + 3]
        output = self.rng.randrange(1, 90)
        self.wanted[f"r{number}"] = output
        self.engine.add(self.harness.request(f"r{number}", prompt, output, tenant=tenant))

    def go_on(self) -> None:
        """A step, and what may come between two; before it the sums are counted a second time."""
        census = self.engine.conductor.reader.census
        if census.sure:
            assert_census_agrees_with_a_recount(census, self.engine.scheduler.running)
        self.engine.step()
        self.disturb()

    def disturb(self) -> None:
        """Now and then somebody hangs up, or the operator of the engine resets its cache."""
        scheduler = self.engine.scheduler
        if scheduler.requests and self.rng.random() < 0.03:
            name = self.rng.choice(sorted(scheduler.requests))
            self.aborted.add(name)
            self.engine.count_preemptions(scheduler.requests[name].take_events())
            scheduler.finish_requests(name, self.harness.ABORTED)
        if self.rng.random() < 0.004:
            scheduler.reset_prefix_cache(reset_running_requests=True)


def play(harness: Any, config: EngineConfig, seed: int, *, use_async: bool) -> Story:
    size = harness.Size(seats=32, tokens=512, blocks=120)
    engine = harness.ours(config, size, use_async=use_async)
    story = Story(engine, random.Random(seed), harness)  # noqa: S311 - a load
    for number in range(REQUESTS):
        story.arrive(number)
        for _ in range(story.rng.randrange(4)):
            story.go_on()
    for _ in range(400):
        story.go_on()
    engine.drain()
    return story


@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_every_request_ends_and_every_block_is_free(
    harness: Any, config: EngineConfig, seed: int, use_async: bool
) -> None:
    story = play(harness, config, seed, use_async=use_async)
    engine = story.engine
    harness.assert_empty(engine)
    ended = set(engine.finished) - story.aborted
    assert ended == set(story.wanted) - story.aborted
    tokens = engine.tokens_by_request
    assert {name: tokens[name] for name in ended} == {name: story.wanted[name] for name in ended}
    assert_counters_agree_with_a_recount(engine)


def assert_census_agrees_with_a_recount(census: Any, running: list[Any]) -> None:
    """Who runs what, counted from the list."""
    decodes = [each for each in running if not each.is_prefill_chunk]
    context: Counter[str] = Counter()
    for each in decodes:
        context[owner(each)] += each.num_computed_tokens
    assert census.seats == Counter(map(owner, running))
    assert census.decodes == Counter(map(owner, decodes))
    assert census.context == context
    assert census.base == len(running)
    assert census.prompts == [each for each in running if each.is_prefill_chunk]


def owner(each: Any) -> str:
    return str(each.sampling_params.extra_args["tenantry"])


def assert_counters_agree_with_a_recount(engine: Any) -> None:
    """Every counter of the metrics, computed a second time from the log of steps."""
    tokens = engine.values("tenantry_tokens")
    output = {tenant: tokens[tenant, "output"] for tenant in TENANTS}
    assert output == {tenant: engine.generated[tenant] for tenant in TENANTS}
    computed: Counter[str] = Counter()
    for shot in engine.log:
        for name, count in shot.tokens.items():
            computed[engine.owners[name]] += count
    again = engine.values("tenantry_recomputed_tokens")
    hits = engine.values("tenantry_prefix_hit_tokens")
    for tenant in TENANTS:
        first_time = computed[tenant] - again[tenant,]
        assert tokens[tenant, "prompt"] <= first_time <= tokens[tenant, "prompt"] + output[tenant]
        assert tokens[tenant, "cached"] == hits[tenant,]
    assert sum(hits.values()) > 0
    parts = sum(engine.values("tenantry_gpu_seconds").values())
    seconds = engine.values("tenantry_step_seconds_sum")[()]
    assert parts == pytest.approx(seconds, rel=1e-9)
    assert sum(engine.values("tenantry_preemptions").values()) == engine.preempted > 0
    for name in ("tenantry_running_requests", "tenantry_waiting_requests"):
        assert not any(engine.values(name).values())


def test_a_paused_engine_serves_nobody_and_goes_on_afterwards(harness: Any) -> None:
    engine = harness.ours(CONFIGS["fair"])
    refill = harness.backlog(TENANTS, 10, 100, 20)
    engine.run(1.0, refill)
    engine.scheduler.set_pause_state(harness.PAUSED)
    assert [engine.step().tokens for _ in range(5)][2:] == [{}, {}, {}]
    engine.scheduler.set_pause_state(harness.UNPAUSED)
    engine.drain()
    harness.assert_empty(engine)


def test_everything_may_be_aborted_in_the_middle(harness: Any) -> None:
    engine = harness.ours(CONFIGS["fair"], use_async=True)
    engine.run(1.0, harness.backlog(TENANTS, 20, 300, 50))
    engine.scheduler.finish_requests(None, harness.ABORTED)
    engine.drain()
    for _ in range(3):
        engine.step()
    harness.assert_empty(engine)


def test_requests_without_a_tenant_are_those_of_default(harness: Any) -> None:
    engine = harness.ours(EngineConfig())
    by_tenant: defaultdict[str, int] = defaultdict(int)
    for number in range(4):
        request = harness.request(f"r{number}", 20, 3, tenant="x")
        request.sampling_params.extra_args = None
        engine.add(request)
    engine.drain()
    for (tenant, kind), value in engine.values("tenantry_tokens").items():
        by_tenant[tenant] += int(value) if kind == "output" else 0
    assert by_tenant == {"default": 12}
