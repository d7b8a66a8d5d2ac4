"""The real vLLM scheduler without a worker and a model, under a clock that the test moves.

A step costs what `Cost` says. The answers are what a worker would send back: one token for every
is through. Everything is deterministic.
"""

import copy
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreEventType
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from tenantry_engine import offline
from tenantry_engine.census import Census
from tenantry_engine.conductor import Setup
from tenantry_engine.config import EngineConfig
from tenantry_engine.fair import FairAsyncScheduler, FairScheduler
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.standing import Standing
from tenantry_engine.waiting import Choose, TenantQueue, first

BLOCK = 16
LONGEST = 2048
"""Tokens of a block, and of prompt and output of a request together."""
ABORTED = RequestStatus.FINISHED_ABORTED
PREEMPTED = EngineCoreEventType.PREEMPTED
PAUSED = PauseState.PAUSED_ALL
PAUSED_NEW = PauseState.PAUSED_NEW
UNPAUSED = PauseState.UNPAUSED


@dataclass(frozen=True)
class Size:
    """The engine: seats, tokens in a step, KV blocks of 16 tokens."""

    seats: int = 16
    tokens: int = 512
    blocks: int = 2000


@dataclass(frozen=True)
class Cost:
    """Seconds of a step: fixed, for each prefill token, for each decode."""

    fixed: float = 0.004
    prefill: float = 0.0001
    decode: float = 0.0002


@dataclass
class Shot:
    """One step in the log: tokens by request, and who was preempted so far."""

    tokens: dict[str, int]
    seconds: float


def arguments(size: Size, *, use_async: bool = False) -> dict[str, Any]:
    """What vLLM builds a scheduler with; a test may change it."""
    whole = offline.Size(size.seats, size.tokens, size.blocks, block=BLOCK, longest=LONGEST)
    given = offline.arguments(whole, use_async=use_async, log_stats=True)
    config = given["vllm_config"]
    config.model_config = copy.copy(config.model_config)  # all engines share the first
    return given


def request(
    name: str, prompt: int | Sequence[int], output: int, *, tenant: str, arrival: float = 0.0
) -> Any:
    """A request of a tenant; a prompt is token ids, or a length (then it is like no other's)."""
    ids = own_ids(name, prompt) if isinstance(prompt, int) else list(prompt)
    parameters = SamplingParams(max_tokens=output, ignore_eos=True, extra_args={"tenantry": tenant})
    return Request(
        request_id=name,
        prompt_token_ids=ids,
        sampling_params=parameters,
        pooling_params=None,
        arrival_time=arrival,
        cache_salt=tenant,
        block_hasher=get_request_block_hasher(BLOCK, sha256),
    )


def own_ids(name: str, length: int) -> list[int]:
    """Token ids that differ from those of every other name."""
    seed = sum(ord(c) * 31**i for i, c in enumerate(name))
    return [3 + (seed + i * 7919 + seed // (i + 1)) % 1000 for i in range(length)]


@dataclass
class Engine:
    """A scheduler and a pretended worker. `depth` steps are under way at once."""

    scheduler: Any
    depth: int = 1
    cost: Cost = field(default_factory=Cost)
    now: float = 100.0
    log: list[Shot] = field(default_factory=list)
    generated: Counter[str] = field(default_factory=Counter)
    finished: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    tokens_by_request: Counter[str] = field(default_factory=Counter)
    preempted: int = 0
    flying: deque[tuple[Any, Any, float]] = field(default_factory=deque)

    @property
    def conductor(self) -> Any:
        """Ours, where the scheduler is ours."""
        return self.scheduler.conductor

    def add(self, *requests: Any) -> None:
        """Requests arrive now."""
        for each in requests:
            each.arrival_time = self.now
            self.owners[each.request_id] = tenant_of(each)
            self.scheduler.add_request(each)

    def step(self) -> Shot:
        """Schedule one step and take back what is due."""
        output = self.scheduler.schedule()
        shot = Shot(dict(output.num_scheduled_tokens), self._seconds(output))
        self.log.append(shot)
        self.flying.append((output, self._answer(output), shot.seconds))
        while self.flying and (len(self.flying) >= self.depth or not shot.tokens):
            self._land()
        return shot

    def drain(self, limit: int = 20000) -> None:
        """Step until nothing is left; a live-lock is an error."""
        for _ in range(limit):
            if not self.scheduler.has_unfinished_requests() and not self.flying:
                return
            self.step()
        raise AssertionError(f"still at work after {limit} steps")

    def run(self, seconds: float, refill: Any = None) -> None:
        """Step for so long; `refill` is called before each step."""
        until = self.now + seconds
        while self.now < until:
            if refill is not None:
                refill(self)
            self.step()

    def idle(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self.now += seconds

    def count_preemptions(self, events: Iterable[Any] | None) -> None:
        """Events of a request, as they come with its output or are left when it is aborted."""
        self.preempted += sum(event.type == PREEMPTED for event in events or ())

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """A counter, gauge or sum of the engine's metrics: values by label, the tenant first."""
        return {
            tuple(text for label, text in sample.labels.items() if label != "policy"): sample.value
            for family in self.conductor.book.metrics.collect()
            for sample in family.samples
            if sample.name in (name, f"{name}_total")
        }

    def _seconds(self, output: Any) -> float:
        prefill = decode = 0
        for name, count in output.num_scheduled_tokens.items():
            each = self.scheduler.requests[name]
            if count == 1 and each.num_computed_tokens > each.num_prompt_tokens:
                decode += 1
            else:
                prefill += count
        if not prefill + decode:
            return 0.001
        return self.cost.fixed + prefill * self.cost.prefill + decode * self.cost.decode

    def _answer(self, output: Any) -> Any:
        ids = list(output.num_scheduled_tokens)
        requests = self.scheduler.requests
        tokens = [[] if requests[name].is_prefill_chunk else [7] for name in ids]
        places = {name: place for place, name in enumerate(ids)}
        return ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=tokens)

    def _land(self) -> None:
        output, answer, seconds = self.flying.popleft()
        self.now += seconds
        outputs = self.scheduler.update_from_output(output, answer)
        for each in (o for client in outputs.values() for o in client.outputs):
            self.generated[self.owners[each.request_id]] += len(each.new_token_ids)
            self.tokens_by_request[each.request_id] += len(each.new_token_ids)
            self.count_preemptions(each.events)
            if each.new_token_ids:
                self.first.setdefault(each.request_id, self.now)
            if each.finish_reason is not None:
                self.finished[each.request_id] = self.now


def tenant_queue(choose: Choose = first, *, by_tenant: bool = True) -> TenantQueue:
    """Our waiting queue, in vLLM's order inside a lane; a request names its `tenant`."""
    queue = TenantQueue(lambda each: str(each.tenant), choose)
    queue.split(by_tenant=by_tenant)
    return queue


def standing(excess: Callable[[str, int], float]) -> tuple[Standing, Census, TenantQueue]:
    """Who is here, with the census and the queue that it follows; `excess` is told the decodes."""
    queue, census = tenant_queue(), Census(lambda each: str(each.tenant))
    found = Standing(census, queue, lambda each: excess(each, census.decodes.get(each, 0)))
    found.judge({"a": 4, "b": 4})
    return found, census, queue


def vllm_queue() -> Any:
    """vLLM's own."""
    return FCFSRequestQueue()


def tenant_of(each: Any) -> str:
    """The tenant that a test wrote into its request."""
    if each.sampling_params is None:
        return str(each.pooling_params.extra_kwargs["tenantry"])
    return str((each.sampling_params.extra_args or {}).get("tenantry"))


def ours(
    config: EngineConfig,
    size: Size | None = None,
    *,
    use_async: bool = False,
    cost: Cost | None = None,
) -> Engine:
    """An engine with our scheduler."""
    engine = Engine(None, depth=2 if use_async else 1, cost=cost or Cost())
    equip(engine, config, size or Size(), use_async=use_async)
    return engine


def equip(engine: Engine, config: EngineConfig, size: Size, *, use_async: bool) -> None:
    """Give an engine our scheduler."""
    install(engine, config, arguments(size, use_async=use_async))


def install(engine: Engine, config: EngineConfig, given: Mapping[str, Any]) -> None:
    """Give an engine our scheduler, made with these arguments."""
    metrics = EngineMetrics(config, CollectorRegistry())
    use_async = given["vllm_config"].scheduler_config.async_scheduling
    cls = FairAsyncScheduler if use_async else FairScheduler
    engine.scheduler = cls(setup=Setup(config, metrics, clock=lambda: engine.now), **given)


def stock(size: Size | None = None, *, use_async: bool = False, cost: Cost | None = None) -> Engine:
    """An engine with vLLM's own scheduler."""
    cls = AsyncScheduler if use_async else Scheduler
    scheduler = cls(**arguments(size or Size(), use_async=use_async))
    return Engine(scheduler, depth=2 if use_async else 1, cost=cost or Cost())


def without_grammar(each: Any) -> None:
    """A request whose grammar is still being compiled."""
    each.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR


def grammar_is_ready(each: Any) -> None:
    """It has been compiled."""
    each.status = RequestStatus.WAITING


def backlog(tenants: Iterable[str], depth: int, prompt: int, output: int) -> Any:
    """A refill that keeps `depth` requests of each tenant in the engine."""
    serial: Counter[str] = Counter()

    def refill(engine: Engine) -> None:
        have = Counter(tenant_of(each) for each in engine.scheduler.requests.values())
        for tenant in tenants:
            for _ in range(depth - have[tenant]):
                serial[tenant] += 1
                name = f"{tenant}-{serial[tenant]}-{len(engine.log)}"
                engine.add(request(name, prompt, output, tenant=tenant))

    return refill


def assert_empty(engine: Engine) -> None:
    """No request, no held block, no block twice in the free queue, all references gone."""
    scheduler = engine.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    assert not scheduler.requests
    assert not scheduler.running
    assert len(scheduler.waiting) == 0
    free = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    assert len(free) == len(set(free)) == pool.num_gpu_blocks - 1
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    assert all(block.ref_cnt == 0 for block in pool.blocks if block is not pool.null_block)
