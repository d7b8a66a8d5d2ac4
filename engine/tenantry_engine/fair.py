"""The mixin over vLLM's schedulers: what vLLM calls, and what the conductor asks of vLLM.

vLLM's own `schedule()` is never copied. The conductor orders and hides running requests before
it, may send one back, and sets the knobs that vLLM reads anew in each step.

This module is imported only when every seam of `seams` is there.
"""

import logging
import time
from typing import Any, Final

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.request import RequestStatus

from tenantry_engine.census import Census
from tenantry_engine.conductor import Conductor, Setup
from tenantry_engine.config import LOGGER_NAME
from tenantry_engine.translate import decode_tokens, decoding

log = logging.getLogger(LOGGER_NAME)

BY_ITSELF: Final = (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)
"""How a request ends whose output ended it."""


READY: Final = (RequestStatus.WAITING, RequestStatus.PREEMPTED)
"""How a request stands that lacks nothing but its turn."""


class FairScheduler(Scheduler):
    """vLLM's scheduler with a conductor."""

    max_num_scheduled_tokens: int
    max_num_active_reqs: int
    adaptive_long_prefill_threshold: bool

    def __init__(self, *, setup: Setup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conductor = Conductor(self, setup)
        self.waiting = self.conductor.queue
        groups = self.kv_cache_config.kv_cache_groups
        # With several groups or a connector, what a request needs is vLLM's to compute.
        self._plain_cache = (
            len(groups) == 1
            and type(groups[0].kv_cache_spec) is FullAttentionSpec
            and self.connector is None
        )
        self._refused: list[tuple[Any, Any]] = []
        """Requests that were refused, with what their clients are told in the next step."""
        self._adapters: frozenset[int] = frozenset()
        """LoRA adapters that running requests use as the step begins."""

    # --- what vLLM calls -------------------------------------------------------

    def add_request(self, request: Any) -> None:
        """A request arrives; from now on its tenant is known."""
        if request.request_id in self.requests:  # it is more input of a session
            super().add_request(request)
            return
        self.conductor.reader.meet(request)
        super().add_request(request)
        self.conductor.arrived(request)
        if not self.can_ever_fit(request):
            self._refuse(request)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """One step, as vLLM schedules it within the conductor's plan."""
        conductor = self.conductor
        if self.lora_config:
            self._adapters = frozenset(adapter(request) for request in self.running) - {0}
        try:
            conductor.before()
            output = super().schedule(throttle_prefills)
        finally:
            conductor.after()
        conductor.begun(output)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """A step's output is back."""
        now = self.conductor.now()
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        self.conductor.ended(scheduler_output, outputs, now)
        for request, answer in self._refused:
            outputs.setdefault(request.client_index, EngineCoreOutputs(outputs=[])).outputs.append(
                answer
            )
        self._refused.clear()
        return outputs

    def _refuse(self, request: Any) -> None:
        """End a request at once with an error. vLLM would let it wait for ever, and with it
        everybody behind it."""
        log.error(
            "request %s needs %d KV blocks and the engine has %d: it is refused",
            request.request_id,
            self._whole(request),
            self.blocks() - 1,
        )
        self.finish_requests(request.request_id, RequestStatus.FINISHED_ERROR)
        reason, events = request.get_finished_reason(), request.take_events()
        answer = EngineCoreOutput(request.request_id, [], finish_reason=reason, events=events)
        self._refused.append((request, answer))

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        self.conductor.gone(request, by_itself=request.status in BY_ITSELF)
        return super()._free_request(request, delay_free_blocks)

    def _preempt_request(
        self, request: Any, timestamp: float, drop_stale_output: bool = False
    ) -> None:
        self.conductor.reader.lost(request)
        super()._preempt_request(request, timestamp, drop_stale_output=drop_stale_output)
        self.conductor.book.preempted(self.conductor.reader.tenant(request), self.conductor.cause)

    # --- what the conductor asks -----------------------------------------------

    def unpaused(self) -> bool:
        """Whether requests are being served as usual."""
        return bool(self.pause_state == PauseState.UNPAUSED)

    def divisible(self) -> bool:
        """Whether every prompt at hand may be cut into chunks of any size."""
        if not self.scheduler_config.enable_chunked_prefill or self.need_mamba_block_aligned_split:
            return False
        if not self.max_num_encoder_input_tokens:
            return True
        return not any(
            request.has_encoder_inputs
            for request in (*self.running, *self.conductor.queue.heads().values())
        )

    def decode_tokens(self, census: Census) -> int:
        """Tokens that all decodes take in the next step: one each, and their drafts."""
        if not self.num_spec_tokens:
            return census.decoding
        return sum(decode_tokens(each) for each in self.running if decoding(each))

    def seats(self) -> int:
        """Requests that may run at once."""
        return int(self.max_num_active_reqs)

    def blocks(self) -> int:
        """KV blocks of the engine."""
        return int(self.cache_config.num_gpu_blocks)

    def free_blocks(self) -> int:
        """KV blocks that nobody holds."""
        return int(self.kv_cache_manager.block_pool.get_num_free_blocks())

    def blocks_for(self, request: Any) -> int:
        """Free blocks that a waiting request needs; 0 where only vLLM can tell."""
        if not self._plain_cache:
            return 0
        need = -(-request.num_tokens // self.block_size)
        if need <= self.free_blocks():
            return int(need)
        hits, _, _ = self.kv_cache_manager.get_computed_blocks(request)
        return int(need - sum(block.ref_cnt > 0 for block in hits.blocks[0]))

    def can_ever_fit(self, request: Any) -> bool:
        """Whether the KV cache could hold the prompt and a token of output if it were empty. Where
        only vLLM can tell it is taken for granted. One block is vLLM's own."""
        return not self._plain_cache or self._whole(request) < self.blocks()

    def _whole(self, request: Any) -> int:
        return int(-(-(request.num_tokens + (request.max_tokens > 1)) // self.block_size))

    def cached_tokens(self, request: Any) -> int:
        """Tokens of a waiting request that the prefix cache has; 0 where only vLLM can tell."""
        if not self._plain_cache or not self.cache_config.enable_prefix_caching:
            return 0
        return int(self.kv_cache_manager.get_computed_blocks(request)[1])

    def ready(self, request: Any) -> bool:
        """Whether a waiting request lacks nothing but its turn."""
        if request.status not in READY:
            return False
        stale = request.num_stale_output_tokens and not request.drop_stale_output
        return not stale and (not self.lora_config or self._has_place_for(request))

    def may_hide(self, request: Any) -> bool:
        """Whether vLLM need not see a running request in this step. It counts the adapters of
        those that it sees, and would give the place of one it does not see to another.
        """
        return not (self.lora_config and adapter(request))

    def can_go_back(self, request: Any) -> bool:
        """Whether a running request may be preempted now."""
        return bool(self._request_blocks_can_be_freed(request))

    def send_back(self, request: Any) -> None:
        """Preempt a running request. It must not be admitted again in the same step."""
        self.running.remove(request)
        self.prev_step_scheduled_req_ids.discard(request.request_id)
        self._preempt_request(
            request, time.monotonic(), drop_stale_output=self.requires_kv_delivery
        )

    def turn_knobs(self, tokens: int, threshold: int, hidden: int) -> tuple[Any, ...]:
        """From now on a step may hold `tokens`, a prefill `threshold` (0: any), and `hidden`
        requests that are out of sight keep their seats. Returns what `restore_knobs` takes.
        """
        config = self.scheduler_config
        saved = (
            self.max_num_scheduled_tokens,
            self.max_num_active_reqs,
            self.adaptive_long_prefill_threshold,
            config.long_prefill_token_threshold,
        )
        self.max_num_scheduled_tokens = min(tokens, saved[0])
        self.max_num_active_reqs = saved[1] - hidden
        if threshold:
            self.adaptive_long_prefill_threshold = False
            config.long_prefill_token_threshold = threshold
        return saved

    def restore_knobs(self, saved: tuple[Any, ...]) -> None:
        """Everything as it was."""
        (
            self.max_num_scheduled_tokens,
            self.max_num_active_reqs,
            self.adaptive_long_prefill_threshold,
            self.scheduler_config.long_prefill_token_threshold,
        ) = saved

    def _has_place_for(self, request: Any) -> bool:
        """Whether the request's adapter is loaded, or may be without one being taken out."""
        if not self.lora_config:
            return True
        return bool(len({*self._adapters, adapter(request)} - {0}) <= self.lora_config.max_loras)


def adapter(request: Any) -> int:
    """The number of the LoRA adapter of a request; 0: none."""
    return request.lora_request.lora_int_id if request.lora_request else 0


class FairAsyncScheduler(FairScheduler, AsyncScheduler):
    """The same over vLLM's asynchronous scheduler, which has two steps under way."""
