"""vLLM's real engine on the CPU in this process, whose scheduler can be exchanged while it is idle.

One start takes seconds, so many arms run in one process: each gets a scheduler of its own, with an
empty prefix cache and as many KV blocks as it is to have. Models have real random weights in
float32: what a request is answered at temperature 0 depends on every token before it.
"""

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from e2e import models, paths

TENANTS: Final = ("gold", "silver", "free")
BLOCK: Final = 32
BLOCKS: Final = 800
"""KV blocks of the engine; a scheduler may be given fewer."""
SEATS: Final = 32
ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TENANTRY_METRICS_PORT": "0",
    }
)
MARK: Final = "found: "
SECONDS: Final = 280

Make = Callable[..., Any]
_GIVEN: Final[dict[str, Any]] = {}


def Capture(**arguments: Any) -> Any:  # noqa: N802 - named like a class
    """vLLM's own scheduler; keeps the arguments for others."""
    from vllm.v1.core.sched.scheduler import Scheduler  # noqa: PLC0415 - takes seconds

    _GIVEN.update(arguments)
    return Scheduler(**arguments)


@dataclass
class Engine:
    """The engine of this process."""

    llm: Any
    before: dict[str, int] = field(default_factory=dict)

    @property
    def core(self) -> Any:
        """vLLM's engine core."""
        return self.llm.llm_engine.engine_core.engine_core

    def use(self, make: Make, blocks: int) -> Any:
        """From now on a new scheduler decides, over so many KV blocks."""
        from dataclasses import replace  # noqa: PLC0415

        cache = replace(_GIVEN["kv_cache_config"], num_blocks=blocks)
        _GIVEN["vllm_config"].cache_config.num_gpu_blocks = blocks
        self.core.scheduler = make(**{**_GIVEN, "kv_cache_config": cache})
        self.before = self.counters()
        return self.core.scheduler

    def counters(self) -> dict[str, int]:
        """vLLM's counters since the start."""
        return {m.name: int(m.value) for m in self.llm.get_metrics() if hasattr(m, "value")}

    def since(self, name: str) -> int:
        """How much one of them has grown under this scheduler."""
        return self.counters()[f"vllm:{name}"] - self.before.get(f"vllm:{name}", 0)

    def generate(self, prompts: Sequence[Sequence[int]], parameters: Sequence[Any]) -> list[Any]:
        """The outputs of vLLM's for these requests, all sent at once."""
        given = [{"prompt_token_ids": list(ids)} for ids in prompts]
        return list(self.llm.generate(given, list(parameters), use_tqdm=False))


def start() -> Engine:
    """The engine, with vLLM's own scheduler. Once in a process."""
    from vllm import LLM  # noqa: PLC0415 - takes seconds

    model = models.make("tiny", paths.cache() / "models" / "tiny")
    llm = LLM(
        str(model),
        dtype="float32",
        max_model_len=2048,
        enforce_eager=True,
        seed=0,
        scheduler_cls="tenantry_engine.tests.real_engine.Capture",
        num_gpu_blocks_override=BLOCKS,
        block_size=BLOCK,
        max_num_seqs=SEATS,
        max_num_batched_tokens=512,
        disable_log_stats=False,
    )
    return Engine(llm)


def ours(ordering: str) -> Make:
    """Our scheduler for three tenants, with this ordering. Each look at its clock is 10 ms after
    the last one: what it decides, and how often it sends back, is the same on a busy machine."""

    def make(**arguments: Any) -> Any:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415

        from tenantry_api.choices import Ordering  # noqa: PLC0415
        from tenantry_engine.conductor import Setup  # noqa: PLC0415
        from tenantry_engine.config import EngineConfig  # noqa: PLC0415
        from tenantry_engine.fair import FairScheduler  # noqa: PLC0415
        from tenantry_engine.metrics import EngineMetrics  # noqa: PLC0415

        config = EngineConfig(weights={"gold": 3.0}, tenants=TENANTS, ordering=Ordering(ordering))
        looks = itertools.count()
        metrics = EngineMetrics(config, CollectorRegistry())
        setup = Setup(config, metrics, clock=lambda: next(looks) / 100)
        return FairScheduler(setup=setup, **arguments)

    return make


def prompts_of(kind: str, count: int) -> list[list[int]]:
    """Prompts as token ids: unlike each other, or with one of four beginnings in common."""
    rng = random.Random(1)  # noqa: S311 - a load

    def ids(length: int) -> list[int]:
        return [rng.randrange(models.FIRST_WORD, 1000) for _ in range(length)]

    if kind == "independent":
        return [ids(rng.randrange(5, 400)) for _ in range(count)]
    beginnings = [ids(256) for _ in range(4)]
    return [
        rng.choice(beginnings)[: rng.choice((64, 128, 256))] + ids(rng.randrange(5, 100))
        for _ in range(count)
    ]


def begin(module: str, *arguments: str) -> "subprocess.Popen[str]":
    """A process that runs a module of the tests on an engine of its own."""
    root = str(paths.checkout())
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def found(run: "subprocess.Popen[str]") -> Any:
    """What it found. Raises RuntimeError with the end of what it said if it found nothing."""
    said, errors = run.communicate(timeout=SECONDS)
    lines = [line for line in said.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"no result (exit {run.returncode}):\n{errors[-3000:]}")
    return json.loads(lines[-1].removeprefix(MARK))


def say(result: Any) -> None:
    """The last word of such a process; an engine's own way out takes seconds."""
    sys.stdout.write(f"\n{MARK}{json.dumps(result)}\n")
    sys.stdout.flush()
    os._exit(0)
