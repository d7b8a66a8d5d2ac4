"""Engines with vLLM's other features switched on, for the harness: what a worker would send back is
made up, everything that a scheduler decides is vLLM's and ours."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import torch
from vllm.config import LoRAConfig, SpeculativeConfig
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.utils.hashing import sha256
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from tenantry_engine.config import EngineConfig
from tenantry_engine.tests import harness
from tenantry_engine.tests.recount import SIZE, Audit, Load, Maker

WAITS_FOR_INPUT: Final = RequestStatus.WAITING_FOR_STREAMING_REQ
WAITS_FOR_GRAMMAR: Final = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
RUNNING: Final = RequestStatus.RUNNING
PREEMPTED: Final = RequestStatus.PREEMPTED


# --- engines -------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What is switched on: adapters at once, drafts of a step, chunked prefill, pipeline stages,
    encoder tokens of a step, pooling, steps without prefills (data parallel), and the block to
    which a hybrid model's chunks are aligned."""

    adapters: int = 0
    drafts: int = 0
    chunked: bool = True
    stages: int = 1
    encoder: int = 0
    pooling: bool = False
    throttled: bool = False
    aligned: int = 0


@dataclass
class Drafting(Audit):
    """Each decode gets drafts, and a random part of them is accepted."""

    rng: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - a load
    drafted: int = 0
    accepted: int = 0

    def _answer(self, output: Any) -> Any:
        answer = super()._answer(output)
        for place, name in enumerate(answer.req_ids):
            drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
            if drafts and answer.sampled_token_ids[place]:
                good = self.rng.randrange(drafts + 1)
                self.drafted += drafts
                self.accepted += good
                answer.sampled_token_ids[place] = [7] * (1 + good)
        return answer

    def _land(self) -> None:
        output = self.flying[0][0]
        super()._land()
        scheduler = self.scheduler
        if not scheduler.scheduler_config.async_scheduling:
            names = [name for name in output.num_scheduled_tokens if name in scheduler.requests]
            drafts = [[9] * scheduler.num_spec_tokens for _ in names]
            scheduler.update_draft_token_ids(DraftTokenIds(names, drafts))


@dataclass
class Pooling(Audit):
    """A prompt that is through yields a vector and no token."""

    def _answer(self, output: Any) -> Any:
        ids = list(output.num_scheduled_tokens)
        requests = self.scheduler.requests
        through = [requests[n].num_computed_tokens >= requests[n].num_prompt_tokens for n in ids]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: place for place, name in enumerate(ids)},
            sampled_token_ids=[],
            pooler_output=[torch.ones(2) if done else None for done in through],
        )


def engine(
    config: EngineConfig,
    options: Options,
    size: harness.Size = SIZE,
    *,
    use_async: bool,
    kind: type[Audit] = Audit,
) -> Any:
    """An engine with our scheduler and these features."""
    depth = options.stages if options.stages > 1 else 1 + use_async
    made = kind(None, depth=depth, size=size)
    harness.install(made, config, arguments(size, options, use_async=use_async))
    scheduler = made.scheduler
    if options.encoder:
        scheduler.max_num_encoder_input_tokens = options.encoder
        scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=options.encoder)
    if options.aligned:
        scheduler.need_mamba_block_aligned_split = True
        scheduler.cache_config.block_size = options.aligned
    if options.throttled:
        turns = itertools.cycle((False, True, True))
        schedule = scheduler.schedule
        scheduler.schedule = lambda: schedule(throttle_prefills=next(turns))
    return made


def arguments(size: harness.Size, options: Options, *, use_async: bool) -> dict[str, Any]:
    """What vLLM builds such a scheduler with."""
    given = harness.arguments(size, use_async=use_async)
    config = given["vllm_config"]
    config.scheduler_config.enable_chunked_prefill = options.chunked
    config.parallel_config.pipeline_parallel_size = options.stages
    if options.adapters:
        config.lora_config = LoRAConfig(max_loras=options.adapters, max_lora_rank=8)
    if options.drafts:
        config.speculative_config = SpeculativeConfig(
            method="ngram",
            num_speculative_tokens=options.drafts,
            prompt_lookup_max=2,
            target_model_config=config.model_config,
            target_parallel_config=config.parallel_config,
        )
    if options.pooling:
        config.model_config.runner_type = "pooling"
    return given


# --- requests ------------------------------------------------------------------


class Grammar:
    """A grammar that takes every token."""

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Take them."""
        return bool(request_id) and bool(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """All of these may come."""
        return tokens


def with_adapter(each: Any, number: int) -> Any:
    """The request, with this LoRA adapter; 0: none."""
    if number:
        each.lora_request = LoRARequest(f"adapter-{number}", number, "/none")
    return each


def structured(
    name: str, prompt: int | Sequence[int], output: int, *, tenant: str
) -> tuple[Any, Future[Any]]:
    """A request with a grammar, and the future that is set when this has been compiled."""
    parameters = _sampling(output, tenant)
    parameters.structured_outputs = StructuredOutputsParams(regex="a+")
    each = _request(name, prompt, sampling_params=parameters)
    grammar: Future[Any] = Future()
    each.structured_output_request.grammar = grammar
    return each, grammar


def part(
    name: str, prompt: int | Sequence[int], output: int, *, tenant: str, more: bool = True
) -> Any:
    """One part of a session whose input comes bit by bit; without `more` the word that it is
    over."""
    each = harness.request(name, prompt, output, tenant=tenant)
    each.resumable = more
    return each


def pooled(name: str, prompt: int | Sequence[int], *, tenant: str) -> Any:
    """A request for a vector."""
    parameters = PoolingParams(task="embed", extra_kwargs={"tenantry": tenant})
    return _request(name, prompt, pooling_params=parameters)


def with_image(
    name: str, prompt: int | Sequence[int], output: int, *, tenant: str, image: int
) -> Any:
    """A request whose prompt begins with an image of so many tokens."""
    feature = MultiModalFeatureSpec(
        data=None,
        modality="image",
        identifier=f"image of {name}",
        mm_position=PlaceholderRange(offset=0, length=image),
    )
    parameters = _sampling(output, tenant)
    return _request(name, prompt, sampling_params=parameters, mm_features=[feature])


def _sampling(output: int, tenant: str) -> Any:
    extra = {"tenantry": tenant}
    return SamplingParams(max_tokens=output, ignore_eos=True, extra_args=extra)


def _request(name: str, prompt: int | Sequence[int], **more: Any) -> Any:
    given = {"sampling_params": None, "pooling_params": None, **more}
    return Request(
        request_id=name,
        prompt_token_ids=harness.own_ids(name, prompt) if isinstance(prompt, int) else list(prompt),
        block_hasher=get_request_block_hasher(harness.BLOCK, sha256),
        **given,
    )


# --- random loads ----------------------------------------------------------------


class Adapters(Maker):
    """Most requests use one of three adapters."""

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:
        """One request."""
        each = harness.request(name, prompt, output, tenant=tenant)
        return with_adapter(each, len(prompt) % 4)


class Images(Maker):
    """Every prompt begins with an image."""

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:
        """One request."""
        image = max(len(prompt) // 2, 1)
        return with_image(name, prompt, output, tenant=tenant, image=image)


class Vectors(Maker):
    """Every request asks for a vector."""

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:  # noqa: ARG002
        """One request."""
        return pooled(name, prompt, tenant=tenant)


class Grammars(Maker):
    """Every request has a grammar, which is ready after a while or cannot be compiled."""

    def __init__(self) -> None:
        self.compiling: dict[str, Future[Any]] = {}

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:
        """One request."""
        each, self.compiling[name] = structured(name, prompt, output, tenant=tenant)
        return each

    def before(self, load: Load) -> None:
        """Some grammars are ready."""
        for name, grammar in list(self.compiling.items()):
            if load.rng.random() < 0.2:
                del self.compiling[name]
                if load.rng.random() < 0.1:
                    load.aborted.add(name)
                    grammar.set_exception(ValueError("no grammar"))
                else:
                    grammar.set_result(Grammar())


class Sessions(Maker):
    """Every request is a session of a few parts, the next of which may come before the last one is
    answered."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[int, str]] = {}

    def request(self, name: str, prompt: Sequence[int], output: int, tenant: str) -> Any:
        """The first part."""
        self.open[name] = (output, tenant)
        return part(name, prompt, output, tenant=tenant)

    def before(self, load: Load) -> None:
        """Some sessions go on, and some are over."""
        for name, (output, tenant) in list(self.open.items()):
            over = load.rng.random() < 0.5
            if name not in load.engine.scheduler.requests:
                del self.open[name]  # somebody has hung up
            elif load.rng.random() < 0.05:
                if over:
                    del self.open[name]
                else:
                    load.wanted[name] += output
                load.engine.add(part(name, 20, output, tenant=tenant, more=not over))


@dataclass(frozen=True)
class Feature:
    """A feature of vLLM's: what is switched on, what is asked for, and how large the engine is."""

    options: Options
    maker: Callable[[], Maker] = Maker
    kind: type[Audit] = Audit
    size: harness.Size = SIZE


WIDE: Final = harness.Size(seats=12, tokens=512, blocks=64)
ROOMY: Final = harness.Size(seats=12, tokens=256, blocks=400)
"""Nobody is preempted: vLLM's own queue loses a session whose last token comes after that."""
FEATURES: Final[Mapping[str, Feature]] = MappingProxyType(
    {
        "LoRA": Feature(Options(adapters=2), Adapters),
        "speculative decoding": Feature(Options(drafts=3), kind=Drafting),
        "structured output": Feature(Options(), Grammars),
        "streaming input": Feature(Options(), Sessions, size=ROOMY),
        "no chunked prefill": Feature(Options(chunked=False), size=WIDE),
        "images": Feature(Options(encoder=300), Images),
        "pooling": Feature(Options(pooling=True), Vectors, Pooling),
        "pipeline parallel": Feature(Options(stages=3)),
        "data parallel": Feature(Options(throttled=True)),
        "a hybrid model": Feature(Options(aligned=240)),
    }
)
