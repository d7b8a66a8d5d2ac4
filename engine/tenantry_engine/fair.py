"""The mixin over vLLM's schedulers: what vLLM calls, and what the conductor asks of vLLM.

vLLM's own `schedule()` is never copied. The conductor orders and hides running requests before
it, may send one back, and sets the knobs that vLLM reads anew in each step.

This module is imported only when every seam of `seams` is there.
"""

import time
from typing import Any, Final

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.request import RequestStatus

from tenantry_engine.census import Census
from tenantry_engine.conductor import Conductor, Setup
from tenantry_engine.translate import decode_tokens, decoding

BY_ITSELF: Final = (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)
"""How a request ends whose output ended it."""


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

    # --- what vLLM calls -------------------------------------------------------

    def add_request(self, request: Any) -> None:
        """A request arrives; from now on its tenant is known."""
        self.conductor.reader.meet(request)
        super().add_request(request)
        self.conductor.arrived(request)

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """One step, as vLLM schedules it within the conductor's plan."""
        conductor = self.conductor
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
        return outputs

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> Any:
        self.conductor.reader.ended(request, by_itself=request.status in BY_ITSELF)
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
        if not self.scheduler_config.enable_chunked_prefill:
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

    def ready(self, request: Any) -> bool:
        """Whether a waiting request lacks nothing but its turn."""
        stale = request.num_stale_output_tokens and not request.drop_stale_output
        return request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED) and not stale

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


class FairAsyncScheduler(FairScheduler, AsyncScheduler):
    """The same over vLLM's asynchronous scheduler, which has two steps under way."""
