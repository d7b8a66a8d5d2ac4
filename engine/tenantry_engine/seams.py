"""The places in vLLM that are not public and that we touch, and the check that they are there.

vLLM calls its scheduler interface internal and changes it between releases. So every name we rely
on is in one table, each with a probe that runs before the first request. One that fails means:
vLLM's own scheduler serves, one log line says so, and nothing of ours is on.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

SEEN: Final = "0.32-0.33"
"""The vLLM versions in which the names were seen and their use was tested."""

SCHEDULER: Final = "vllm.v1.core.sched.scheduler.Scheduler"
ASYNC_SCHEDULER: Final = "vllm.v1.core.sched.async_scheduler.AsyncScheduler"
QUEUE: Final = "vllm.v1.core.sched.request_queue.RequestQueue"
PAUSE: Final = "vllm.v1.core.sched.interface.PauseState"
OUTPUT: Final = "vllm.v1.core.sched.output.SchedulerOutput"
REQUEST: Final = "vllm.v1.request.Request"
STATUS: Final = "vllm.v1.request.RequestStatus"
POOL: Final = "vllm.v1.core.block_pool.BlockPool"
MANAGER: Final = "vllm.v1.core.kv_cache_manager.KVCacheManager"
HITS: Final = "vllm.v1.core.kv_cache_manager.KVCacheBlocks"
BLOCK: Final = "vllm.v1.core.kv_cache_utils.KVCacheBlock"
CACHE: Final = "vllm.v1.kv_cache_interface.KVCacheConfig"
GROUP: Final = "vllm.v1.kv_cache_interface.KVCacheGroupSpec"
SPEC: Final = "vllm.v1.kv_cache_interface.FullAttentionSpec"
SAMPLING: Final = "vllm.sampling_params.SamplingParams"
POOLING: Final = "vllm.pooling_params.PoolingParams"
ADAPTER: Final = "vllm.lora.request.LoRARequest"
NEW_REQUEST: Final = "vllm.v1.engine.EngineCoreRequest"
ANSWERS: Final = "vllm.v1.engine.EngineCoreOutputs"
ANSWER: Final = "vllm.v1.engine.EngineCoreOutput"
PROCESSOR: Final = "vllm.v1.engine.output_processor.OutputProcessor"
STATE: Final = "vllm.v1.engine.output_processor.RequestState"
TIMES: Final = "vllm.v1.metrics.stats.RequestStateStats"
CONFIG: Final = "vllm.config.VllmConfig"
SCHEDULING: Final = "vllm.config.SchedulerConfig"
KV_CONFIG: Final = "vllm.config.CacheConfig"
LORA_CONFIG: Final = "vllm.config.LoRAConfig"
MODEL_CONFIG: Final = "vllm.config.ModelConfig"
TRANSFER: Final = "vllm.config.KVTransferConfig"
ENCODER_TRANSFER: Final = "vllm.config.ECTransferConfig"
PARALLEL: Final = "vllm.config.ParallelConfig"

STOCK: Final = "vLLM's own scheduler serves"
NOBODY: Final = "vLLM's own scheduler serves, and the door does not start: nobody is told apart"
EMPTY: Final = "the door's figures of waiting times stay empty"

Probe = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Seam:
    """One name: where it is, how to see that it is there, vLLM versions it was seen in, what
    needs it, and what happens without it."""

    owner: str
    name: str
    probe: Probe
    versions: str
    purpose: str
    without: str = STOCK

    @property
    def path(self) -> str:
        """The dotted name, for the log."""
        return f"{self.owner}.{self.name}"

    @property
    def needed(self) -> bool:
        """Whether our scheduler is off without it."""
        return self.without != EMPTY


def method(name: str, *parameters: str) -> Probe:
    """A function of that name that takes these parameters."""

    def probe(owner: Any) -> bool:
        function = getattr(owner, name, None)
        if not callable(function):
            return False
        return set(parameters) <= set(inspect.signature(function).parameters)

    return probe


def instance(name: str, within: str = "__init__") -> Probe:
    """An attribute that instances get: named in the code of `within`, or declared on the class."""

    def probe(owner: Any) -> bool:
        if hasattr(owner, name) or name in getattr(owner, "__annotations__", {}):
            return True
        return name in _named(owner, within)

    return probe


def alone(name: str, *others: str) -> Probe:
    """An instance's attribute, where nothing but these has that name in its own. A queue that we
    do not know would hold requests that nobody serves, without any error."""

    def probe(owner: Any) -> bool:
        named = {each for each in _named(owner, "__init__") if name in each}
        return name in named and named <= {name, *others}

    return probe


def _named(owner: Any, function: str) -> tuple[str, ...]:
    """The names in the code of a function; none if there is no such function."""
    code = getattr(getattr(owner, function, None), "__code__", None)
    return () if code is None else tuple(code.co_names)


def _attributes(owner: str, purpose: str, *names: str, without: str = STOCK) -> Iterator[Seam]:
    for name in names:
        yield Seam(owner, name, instance(name), SEEN, purpose, without)


def _method(owner: str, name: str, purpose: str, *parameters: str, without: str = STOCK) -> Seam:
    return Seam(owner, name, method(name, *parameters), SEEN, purpose, without)


SEAMS: Final[tuple[Seam, ...]] = (
    _method(SCHEDULER, "__init__", "start", "vllm_config", "kv_cache_config"),
    _method(SCHEDULER, "schedule", "every step", "throttle_prefills"),
    _method(ASYNC_SCHEDULER, "schedule", "every step", "throttle_prefills"),
    _method(
        SCHEDULER,
        "update_from_output",
        "measured step time",
        "scheduler_output",
        "model_runner_output",
    ),
    _method(SCHEDULER, "add_request", "tenant of a request", "request"),
    _method(
        SCHEDULER, "_preempt_request", "preemption", "request", "timestamp", "drop_stale_output"
    ),
    _method(SCHEDULER, "_request_blocks_can_be_freed", "preemption", "request"),
    _method(SCHEDULER, "_free_request", "what runs", "request", "delay_free_blocks"),
    *_attributes(
        SCHEDULER,
        "order, hiding and preemption of running requests",
        *("running", "prev_step_scheduled_req_ids", "requires_kv_delivery"),
    ),
    Seam(
        SCHEDULER,
        "waiting",
        alone(
            *("waiting", "kv_holding_waiting", "deferred_waiting"),
            "num_waiting_for_streaming_input",
        ),
        SEEN,
        "queue between tenants",
    ),
    *_attributes(SCHEDULER, "queue between tenants", "kv_holding_waiting"),
    *_attributes(SCHEDULER, "what a step gave to whom", "requests"),
    *_attributes(
        SCHEDULER,
        "step budget",
        *("max_num_scheduled_tokens", "adaptive_long_prefill_threshold", "scheduler_config"),
        *("max_num_encoder_input_tokens", "need_mamba_block_aligned_split", "num_spec_tokens"),
    ),
    *_attributes(SCHEDULER, "seats", "max_num_active_reqs", "num_waiting_for_streaming_input"),
    *_attributes(
        SCHEDULER,
        "whether a head fits",
        *("kv_cache_manager", "block_size", "cache_config", "kv_cache_config", "connector"),
    ),
    *_attributes(SCHEDULER, "LoRA", "lora_config"),
    *_attributes(SCHEDULER, "pause", "pause_state"),
    *_attributes(PAUSE, "pause", "UNPAUSED"),
    *(
        _method(QUEUE, name, "queue between tenants", *parameters)
        for name, parameters in (
            ("add_request", ("request",)),
            ("pop_request", ()),
            ("peek_request", ()),
            ("prepend_request", ("request",)),
            ("prepend_requests", ("requests",)),
            ("remove_request", ("request",)),
            ("remove_requests", ("requests",)),
        )
    ),
    *_attributes(
        REQUEST,
        "what a step gave to whom",
        *("request_id", "sampling_params", "pooling_params", "arrival_time"),
        *("num_computed_tokens", "num_prompt_tokens", "num_output_placeholders"),
        *("is_prefill_chunk",),
    ),
    *_attributes(
        REQUEST, "step budget", "num_tokens", "num_tokens_with_spec", "has_encoder_inputs"
    ),
    *_attributes(
        REQUEST,
        "whether a head is ready",
        *("status", "num_stale_output_tokens", "drop_stale_output"),
    ),
    *_attributes(REQUEST, "LoRA", "lora_request"),
    *_attributes(
        REQUEST,
        "ordering",
        *("priority", "max_tokens", "num_output_tokens", "num_preemptions"),
    ),
    *_attributes(
        REQUEST,
        "refusing what can never fit",
        *("client_index", "get_finished_reason", "take_events"),
    ),
    *_attributes(STATUS, "refusing what can never fit", "FINISHED_ERROR"),
    *_attributes(ANSWER, "refusing what can never fit", "finish_reason", "events"),
    _method(
        SCHEDULER,
        "finish_requests",
        "refusing what can never fit",
        *("request_ids", "finished_status"),
    ),
    *_attributes(STATUS, "whether a head is ready", "WAITING", "PREEMPTED"),
    *_attributes(STATUS, "what runs", "FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED"),
    *_attributes(
        OUTPUT,
        "what a step gave to whom",
        *("num_scheduled_tokens", "scheduled_spec_decode_tokens"),
    ),
    *_attributes(POOL, "whether a head fits", "get_num_free_blocks"),
    _method(MANAGER, "get_computed_blocks", "whether a head fits", "request"),
    *_attributes(MANAGER, "whether a head fits", "block_pool"),
    *_attributes(HITS, "whether a head fits", "blocks"),
    *_attributes(BLOCK, "whether a head fits", "ref_cnt"),
    *_attributes(CACHE, "whether a head fits", "kv_cache_groups"),
    *_attributes(GROUP, "whether a head fits", "kv_cache_spec"),
    _method(SPEC, "__init__", "whether a head fits"),
    *_attributes(KV_CONFIG, "whether a head fits", "num_gpu_blocks", "enable_prefix_caching"),
    *_attributes(ADAPTER, "LoRA", "lora_int_id"),
    *_attributes(LORA_CONFIG, "LoRA", "max_loras"),
    *_attributes(SAMPLING, "tenant of a request", "extra_args"),
    *_attributes(POOLING, "tenant of a request", "extra_kwargs"),
    *_attributes(ANSWERS, "what a step gave to whom", "outputs"),
    *_attributes(ANSWER, "what a step gave to whom", "request_id", "new_token_ids"),
    *_attributes(SCHEDULING, "start", "async_scheduling", "policy"),
    *_attributes(
        SCHEDULING, "step budget", "long_prefill_token_threshold", "enable_chunked_prefill"
    ),
    *_attributes(
        CONFIG,
        "start",
        *("scheduler_config", "model_config", "parallel_config"),
        *("kv_transfer_config", "ec_transfer_config"),
    ),
    *_attributes(MODEL_CONFIG, "start", "is_encoder_decoder", "is_diffusion", "model"),
    *_attributes(PARALLEL, "start", "data_parallel_rank_local"),
    *_attributes(TRANSFER, "start", "kv_connector"),
    *_attributes(ENCODER_TRANSFER, "start", "ec_connector"),
    _method(PROCESSOR, "add_request", "tenant of a request", "request", without=NOBODY),
    *_attributes(
        NEW_REQUEST,
        "tenant of a request",
        *("request_id", "sampling_params", "pooling_params", "cache_salt", "priority"),
        without=NOBODY,
    ),
    *_attributes(PROCESSOR, "waiting times", "request_states", without=EMPTY),
    *_attributes(STATE, "waiting times", "stats", without=EMPTY),
    *_attributes(TIMES, "waiting times", "queued_ts", "scheduled_ts", without=EMPTY),
)


def missing(table: tuple[Seam, ...] = SEAMS) -> tuple[Seam, ...]:
    """The seams without which our scheduler is off, and that this vLLM does not have."""
    return tuple(seam for seam in table if seam.needed and not there(seam))


def there(seam: Seam) -> bool:
    """Whether this vLLM has it."""
    module, _, name = seam.owner.rpartition(".")
    try:
        owner = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return seam.probe(owner)


def rows(table: tuple[Seam, ...] = SEAMS) -> Iterator[str]:
    """The table in Markdown: one row for what is alike in all but the name."""
    yield "| of | names | versions | what for | without it |"
    yield "|---|---|---|---|---|"
    for (owner, versions, purpose, without), alike in groupby(table, _but_the_name):
        names = ", ".join(f"`{seam.name}`" for seam in alike)
        yield f"| `{owner}` | {names} | {versions} | {purpose} | {without} |"


def _but_the_name(seam: Seam) -> tuple[str, str, str, str]:
    return seam.owner, seam.versions, seam.purpose, seam.without
