"""The places in vLLM that are not public and that we touch, and the check that they are there.

vLLM calls its scheduler interface internal and changes it between releases. So every name we rely
on is in one table, each with a probe that runs before the first request. One that fails means:
vLLM's own scheduler serves, one log line says so, and nothing of ours is on.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

SCHEDULER: Final = "vllm.v1.core.sched.scheduler.Scheduler"
ASYNC_SCHEDULER: Final = "vllm.v1.core.sched.async_scheduler.AsyncScheduler"
QUEUE: Final = "vllm.v1.core.sched.request_queue.RequestQueue"
REQUEST: Final = "vllm.v1.request.Request"
OUTPUT: Final = "vllm.v1.core.sched.output.SchedulerOutput"
POOL: Final = "vllm.v1.core.block_pool.BlockPool"
MANAGER: Final = "vllm.v1.core.kv_cache_manager.KVCacheManager"
STATUS: Final = "vllm.v1.request.RequestStatus"
CONFIG: Final = "vllm.config.SchedulerConfig"
PROCESSOR: Final = "vllm.v1.engine.output_processor.OutputProcessor"

Probe = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Seam:
    """One name: where it is, how to see that it is there, vLLM versions it was seen in, what
    needs it."""

    owner: str
    name: str
    probe: Probe
    versions: str
    purpose: str

    @property
    def path(self) -> str:
        """The dotted name, for the log."""
        return f"{self.owner}.{self.name}"


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
        code = getattr(getattr(owner, within, None), "__code__", None)
        return code is not None and name in code.co_names

    return probe


def _seam(owner: str, name: str, probe: Probe, purpose: str, versions: str = "0.32-0.33") -> Seam:
    return Seam(owner, name, probe, versions, purpose)


def _attribute(owner: str, name: str, purpose: str) -> Seam:
    return _seam(owner, name, instance(name), purpose)


def _method(owner: str, name: str, purpose: str, *parameters: str) -> Seam:
    return _seam(owner, name, method(name, *parameters), purpose)


SEAMS: Final[tuple[Seam, ...]] = (
    _attribute(SCHEDULER, "waiting", "queue between tenants"),
    _attribute(SCHEDULER, "kv_holding_waiting", "requests that wait and hold KV blocks"),
    _attribute(SCHEDULER, "running", "order, hiding and preemption of running requests"),
    _attribute(SCHEDULER, "requests", "what a step gave to whom"),
    _attribute(SCHEDULER, "max_num_scheduled_tokens", "step budget"),
    _attribute(SCHEDULER, "max_num_active_reqs", "seats"),
    _attribute(SCHEDULER, "adaptive_long_prefill_threshold", "step budget"),
    _attribute(SCHEDULER, "num_waiting_for_streaming_input", "seats"),
    _attribute(SCHEDULER, "prev_step_scheduled_req_ids", "preemption"),
    _attribute(SCHEDULER, "requires_kv_delivery", "preemption"),
    _attribute(SCHEDULER, "kv_cache_manager", "whether a head fits"),
    _attribute(SCHEDULER, "block_size", "whether a head fits"),
    _method(SCHEDULER, "schedule", "every step", "throttle_prefills"),
    _method(
        SCHEDULER,
        "update_from_output",
        "measured step time",
        "scheduler_output",
        "model_runner_output",
    ),
    _method(
        SCHEDULER, "_preempt_request", "preemption", "request", "timestamp", "drop_stale_output"
    ),
    _method(SCHEDULER, "_request_blocks_can_be_freed", "preemption", "request"),
    _method(SCHEDULER, "_free_request", "what runs", "request", "delay_free_blocks"),
    _attribute(SCHEDULER, "num_spec_tokens", "step budget"),
    _method(SCHEDULER, "add_request", "tenant of a request", "request"),
    _method(PROCESSOR, "add_request", "tenant of a request", "request"),
    _seam(SCHEDULER, "pause_state", lambda owner: hasattr(owner, "pause_state"), "pause"),
    _method(ASYNC_SCHEDULER, "schedule", "every step", "throttle_prefills"),
    *(
        _method(QUEUE, name, "queue between tenants")
        for name in (
            "add_request",
            "pop_request",
            "peek_request",
            "prepend_request",
            "prepend_requests",
            "remove_request",
            "remove_requests",
        )
    ),
    *(
        _attribute(REQUEST, name, "what a step gave to whom")
        for name in (
            "request_id",
            "sampling_params",
            "num_computed_tokens",
            "num_prompt_tokens",
            "num_output_placeholders",
            "is_prefill_chunk",
            "arrival_time",
        )
    ),
    _attribute(REQUEST, "num_tokens_with_spec", "step budget"),
    _attribute(REQUEST, "num_stale_output_tokens", "whether a head is ready"),
    _attribute(REQUEST, "drop_stale_output", "whether a head is ready"),
    _attribute(STATUS, "WAITING", "whether a head is ready"),
    _attribute(STATUS, "PREEMPTED", "whether a head is ready"),
    _attribute(STATUS, "FINISHED_STOPPED", "what runs"),
    _attribute(STATUS, "FINISHED_LENGTH_CAPPED", "what runs"),
    _attribute(REQUEST, "num_tokens", "step budget"),
    _attribute(REQUEST, "has_encoder_inputs", "step budget"),
    _attribute(OUTPUT, "num_scheduled_tokens", "what a step gave to whom"),
    _attribute(OUTPUT, "scheduled_spec_decode_tokens", "what a step gave to whom"),
    _attribute(CONFIG, "long_prefill_token_threshold", "step budget"),
    _attribute(CONFIG, "enable_chunked_prefill", "step budget"),
    _method(POOL, "get_num_free_blocks", "whether a head fits"),
    _method(MANAGER, "get_computed_blocks", "whether a head fits", "request"),
    _attribute(MANAGER, "block_pool", "whether a head fits"),
)


def missing(table: tuple[Seam, ...] = SEAMS) -> tuple[Seam, ...]:
    """The seams that this vLLM does not have."""
    return tuple(seam for seam in table if not _there(seam))


def _there(seam: Seam) -> bool:
    module, _, name = seam.owner.rpartition(".")
    try:
        owner = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return seam.probe(owner)
