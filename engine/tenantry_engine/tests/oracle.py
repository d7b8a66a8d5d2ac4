"""The oracle of outputs: a scheduler may decide when a token is made, never which.

`python -m tenantry_engine.tests.oracle` runs the real engine on the CPU with real random weights
in float32, once for each case in a process of its own, and prints one line for each: the hash of
every greedy token of all requests must be the same whatever schedules them. A negative control,
which lets requests read a wrong KV block, must differ: otherwise the oracle is blind.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from e2e import models, paths

PLUGIN: Final = "tenantry_engine.scheduler.TenantryScheduler"
CONTROL: Final = "tenantry_engine.tests.oracle.WrongBlock"
TENANTS: Final = ("gold", "silver", "free")
ENGINE: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
OURS: Final = {
    "VLLM_SCHEDULER_TENANT_SHARE": "gold=3,silver=1,free=1",
    "TENANTRY_METRICS_PORT": "0",
}
MARK: Final = "oracle: "
SECONDS: Final = 170
BLOCK: Final = 32


@dataclass(frozen=True)
class Case:
    """One engine: whose scheduler, how many KV blocks, which prompts."""

    name: str
    scheduler: str | None
    blocks: int
    prompts: str


@dataclass(frozen=True)
class Result:
    """What a case gave: the hash of all tokens, preemptions, prefix-cache hits in tokens, and how
    many tenants our scheduler told apart.
    """

    digest: str
    preemptions: int
    hits: int
    tenants: int


PROMPTS: Final = ("independent", "shared")
CASES: Final = tuple(
    Case(f"{name}, {prompts}", scheduler, blocks, prompts)
    for prompts in PROMPTS
    for name, scheduler, blocks in (
        ("stock", None, 2000),
        ("tenantry", PLUGIN, 2000),
        ("tenantry, 120 blocks", PLUGIN, 120),
        ("wrong block (control)", CONTROL, 120),
    )
)


def prompts_of(kind: str) -> list[list[int]]:
    """200 prompts as token ids: unlike each other, or with one of four beginnings in common."""
    rng = random.Random(1)  # noqa: S311 - a load

    def ids(count: int) -> list[int]:
        return [rng.randrange(models.FIRST_WORD, 1000) for _ in range(count)]

    if kind == "independent":
        return [ids(rng.randrange(5, 400)) for _ in range(200)]
    beginnings = [ids(256) for _ in range(4)]
    return [
        rng.choice(beginnings)[: rng.choice((64, 128, 256))] + ids(rng.randrange(5, 100))
        for _ in range(200)
    ]


def WrongBlock(**arguments: Any) -> Any:  # noqa: N802 - named like a class
    """vLLM's scheduler, but every new request with more than two blocks reads block 1."""
    from vllm.v1.core.sched.scheduler import Scheduler  # noqa: PLC0415

    scheduler = Scheduler(**arguments)
    schedule = scheduler.schedule

    def wrong(*given: Any, **named: Any) -> Any:
        output = schedule(*given, **named)
        for new in output.scheduled_new_reqs:
            if len(new.block_ids[0]) > 2:
                new.block_ids[0][1] = 1
        return output

    scheduler.schedule = wrong
    return scheduler


def run_here(case: Case) -> Result:
    """Run a case in this process. One engine a process: it is not left clean."""
    from vllm import LLM, SamplingParams  # noqa: PLC0415

    model = models.make("tiny", paths.cache() / "models" / "tiny")
    llm = LLM(
        str(model),
        dtype="float32",
        max_model_len=2048,
        enforce_eager=True,
        seed=0,
        scheduler_cls=case.scheduler,
        num_gpu_blocks_override=case.blocks,
        block_size=BLOCK,
        max_num_seqs=64,
        max_num_batched_tokens=512,
        disable_log_stats=False,
    )
    rng = random.Random(2)  # noqa: S311 - a load
    prompts = [{"prompt_token_ids": ids} for ids in prompts_of(case.prompts)]
    parameters = [
        SamplingParams(
            temperature=0,
            max_tokens=rng.randrange(10, 80),
            ignore_eos=True,
            extra_args={"tenantry": TENANTS[number % len(TENANTS)]},
        )
        for number in range(len(prompts))
    ]
    outputs = llm.generate(prompts, parameters, use_tqdm=False)
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    digest = hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:12]
    values = {m.name: m.value for m in llm.get_metrics() if hasattr(m, "value")}
    conductor = getattr(llm.llm_engine.engine_core.engine_core.scheduler, "conductor", None)
    return Result(
        digest,
        preemptions=int(values["vllm:num_preemptions"]),
        hits=int(values["vllm:prefix_cache_hits"]),
        tenants=len(conductor.book.presence.seen) if conductor else 0,
    )


def run(case: Case) -> Result:
    """Run a case in a process of its own. Raises RuntimeError with the end of what it said."""
    text = json.dumps(asdict(case))
    root = str(paths.checkout())
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "tenantry_engine.tests.oracle", "--case", text],
        env={
            **os.environ,
            **ENGINE,
            **(OURS if case.scheduler == PLUGIN else {}),
            "PYTHONPATH": path,
        },
        cwd=root,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        said = done.stderr[-2000:]
        raise RuntimeError(f"{case.name}: no result (exit {done.returncode}):\n{said}")
    return Result(**json.loads(lines[-1].removeprefix(MARK)))


def findings(results: dict[str, Result], prompts: str) -> Iterator[str]:
    """What is wrong with the results for these prompts: nothing, one hopes."""
    stock = results[f"stock, {prompts}"]
    tight = results[f"tenantry, 120 blocks, {prompts}"]
    for name in (f"tenantry, {prompts}", f"tenantry, 120 blocks, {prompts}"):
        if results[name].digest != stock.digest:
            yield f"{name}: other tokens than stock"
        if results[name].tenants != len(TENANTS):
            yield f"{name}: tenants were not told apart, so nothing was shown"
    if not tight.preemptions:
        yield f"tenantry, 120 blocks, {prompts}: nothing was preempted, so nothing was shown"
    if prompts == "shared" and not all(
        results[case.name].hits for case in CASES if case.prompts == prompts
    ):
        yield f"{prompts}: no prefix was hit, so nothing was shown"
    if results[f"wrong block (control), {prompts}"].digest == stock.digest:
        yield f"wrong block (control), {prompts}: the same tokens as stock: the oracle is blind"


def main(argv: Sequence[str]) -> int:
    """Print the table; 0 if every hash is as it should be, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tenantry_engine.tests.oracle")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    case = parser.parse_args(argv).case
    if case is not None:
        result = run_here(Case(**json.loads(case)))
        sys.stdout.write(f"\n{MARK}{json.dumps(asdict(result))}\n")
        sys.stdout.flush()
        os._exit(0)  # an engine's own way out takes seconds
    results = {}
    sys.stdout.write(f"{'case':40} {'hash':14} {'preempted':>9} {'cached tokens':>13}\n")
    for each in CASES:
        result = results[each.name] = run(each)
        line = f"{each.name:40} {result.digest:14} {result.preemptions:9} {result.hits:13}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
    wrong = [finding for prompts in PROMPTS for finding in findings(results, prompts)]
    sys.stdout.write("\n".join(wrong) + "\n" if wrong else "the tokens are the same\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
