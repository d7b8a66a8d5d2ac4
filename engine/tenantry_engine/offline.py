"""vLLM's own scheduler without a worker, a model or a network: for simulators and tests.

`arguments` is what vLLM builds a scheduler with, `request` a request, `answer` what a worker would
send back. The caller owns time and the lengths of outputs: a request ends when its answer holds
`STOP`, as with a model that says its end token, or at its limit.

The model folder that vLLM asks for holds a `config.json` and nothing else. It is written into a
temporary folder that goes with the process.
"""

import functools
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
import vllm
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from tenantry_api import names
from tenantry_engine.conductor import Setup
from tenantry_engine.fair import FairAsyncScheduler, FairScheduler

VERSION: Final = str(vllm.__version__).partition("+")[0]
WORD: Final = 7
STOP: Final = 2
"""Token ids of an answer: one like any other, and the one that ends it."""
POSITIONS: Final = 131_072
"""Tokens of a request, prompt and output, as long as the pretended model is told to take."""
NAMESPACE: Final = 512
"""Tokens that one name in `shared` stands for."""
ABORTED: Final = RequestStatus.FINISHED_ABORTED

MODEL: Final[Mapping[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": STOP,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


@dataclass(frozen=True, slots=True)
class Size:
    """An engine: requests that run at once, tokens of a step, KV blocks, and tokens of a block.

    `longest` bounds prompt and output of a request together, in tokens. `policy` is vLLM's own
    order of waiting requests, which only its own scheduler looks at.
    """

    seats: int = 256
    tokens: int = 2048
    blocks: int = 24_375
    block: int = 16
    longest: int = POSITIONS
    caching: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tenantry-model-")


def model(longest: int = POSITIONS, folder: Path | None = None) -> Path:
    """Write the model folder for requests of at most `longest` tokens, and return it."""
    path = (folder or Path(_folder().name)) / f"model-{longest}"
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({**MODEL, "max_position_embeddings": longest}))
    return path


@functools.cache
def _model_config(path: Path, longest: int) -> Any:
    """Built once: vLLM inspects the model's class for it, which takes a second."""
    return ModelConfig(
        model=str(path),
        dtype="float32",
        seed=0,
        max_model_len=longest,
        skip_tokenizer_init=True,
    )


def vllm_config(size: Size, *, use_async: bool = False, folder: Path | None = None) -> Any:
    """vLLM's configuration for an engine of that size."""
    cache = CacheConfig(block_size=size.block, enable_prefix_caching=size.caching)
    config = VllmConfig(
        model_config=_model_config(model(size.longest, folder), size.longest),
        scheduler_config=SchedulerConfig(
            max_num_seqs=size.seats,
            max_num_batched_tokens=size.tokens,
            max_model_len=size.longest,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            policy=size.policy,
        ),
        cache_config=cache,
    )
    config.scheduler_config.async_scheduling = use_async  # the CPU platform has switched it off
    cache.num_gpu_blocks = size.blocks
    return config


def arguments(
    size: Size, *, use_async: bool = False, folder: Path | None = None, log_stats: bool = False
) -> dict[str, Any]:
    """What vLLM builds a scheduler with. Without statistics nothing reads a real clock."""
    config = vllm_config(size, use_async=use_async, folder=folder)
    spec = FullAttentionSpec(
        block_size=size.block, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    init_none_hash(sha256)
    return {
        "vllm_config": config,
        "kv_cache_config": KVCacheConfig(
            num_blocks=size.blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
        ),
        "structured_output_manager": StructuredOutputManager(config),
        "block_size": size.block,
        "hash_block_size": size.block,
        "log_stats": log_stats,
    }


def stock(size: Size, *, use_async: bool = False) -> Any:
    """vLLM's own scheduler, sync or with two steps under way."""
    cls = AsyncScheduler if use_async else Scheduler
    return cls(**arguments(size, use_async=use_async))


def ours(size: Size, setup: Setup, *, use_async: bool = False) -> Any:
    """Our scheduler over the same one of vLLM's."""
    cls = FairAsyncScheduler if use_async else FairScheduler
    return cls(setup=setup, **arguments(size, use_async=use_async))


@functools.lru_cache(maxsize=4096)
def _parameters(tenant: str, limit: int) -> Any:
    return SamplingParams(
        max_tokens=limit, stop_token_ids=[STOP], extra_args={names.EXTRA_ARG: tenant}
    )


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt by its length in tokens; its content is its own, but for what it `shared`.

    Each name in `shared` stands for 512 tokens. Requests of one `salt` whose first names are equal
    have those tokens in common, and the prefix cache knows it. `block` is the engine's.
    """

    tokens: int
    salt: str = ""
    shared: tuple[int, ...] = ()
    block: int = 16


def request(
    name: str, prompt: Prompt, limit: int, *, tenant: str, arrival: float = 0.0, priority: int = 0
) -> Any:
    """A request with `limit` as its max_tokens; `priority` is vLLM's own: small goes first."""
    return Request(
        request_id=name,
        prompt_token_ids=[WORD] * prompt.tokens,
        sampling_params=_parameters(tenant, limit),
        pooling_params=None,
        arrival_time=arrival,
        priority=priority,
        block_hasher=hasher(name, prompt),
    )


def hasher(name: str, prompt: Prompt) -> Callable[[Any], list[Any]]:
    """Names of a request's full blocks, without hashing any tokens: they are pretended."""
    block = prompt.block
    own = hashlib.sha256(f"{prompt.salt}/{name}".encode()).digest()[:24]
    common = _common(prompt)

    def hashes(each: Any) -> list[Any]:
        have, full = len(each.block_hashes), each.num_tokens // block
        if have >= full:
            return []
        return [
            common[i] if i < len(common) else own + i.to_bytes(8, "big") for i in range(have, full)
        ]

    return hashes


def _common(prompt: Prompt) -> Sequence[bytes]:
    """Names of the blocks that lie wholly in shared tokens, each by all that stands before it."""
    found: list[bytes] = []
    chain = hashlib.sha256(prompt.salt.encode())
    for each in prompt.shared:
        chain.update(f"/{each}".encode())
        stem = chain.digest()[:24]
        found += [stem + i.to_bytes(8, "big") for i in range(NAMESPACE // prompt.block)]
    return found[: prompt.tokens // prompt.block]


def answer(requests: Sequence[str], tokens: Sequence[list[int]]) -> Any:
    """What a worker sends back for a step: the new tokens of each request in it, maybe none."""
    return ModelRunnerOutput(
        req_ids=list(requests),
        req_id_to_index={name: place for place, name in enumerate(requests)},
        sampled_token_ids=list(tokens),
    )
