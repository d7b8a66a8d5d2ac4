"""The oracle of outputs: a scheduler may decide when a token is made, never which.

`python -m tenantry_engine.tests.oracle` runs the real engine on the CPU and prints one line for
each arm: the hash of every greedy token of all requests must be the same whatever schedules them,
with every ordering, while KV blocks are short. A negative control, which lets requests read a wrong
KV block, must differ: otherwise the oracle is blind.
"""

import argparse
import contextlib
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tenantry_core.ordering import DEFAULT, ORDERINGS
from tenantry_engine.tests import real_engine

REQUESTS: Final = 120
ROOM: Final = real_engine.BLOCKS
PRESSURE: Final = 60
PROMPTS: Final = ("independent", "shared")
STOCK: Final = "stock"
AGAIN: Final = "stock, after the others"
CONTROL: Final = "wrong block (control)"


@dataclass(frozen=True)
class Arm:
    """Whose scheduler, and how many KV blocks. `ordering` is None where it is not ours."""

    name: str
    ordering: str | None
    blocks: int


@dataclass(frozen=True)
class Result:
    """What an arm gave: the hash of all tokens, preemptions, prefix-cache hits in tokens, and how
    many tenants our scheduler told apart."""

    arm: str
    digest: str
    preemptions: int
    hits: int
    tenants: int


OURS: Final = (
    Arm("tenantry, room for all", DEFAULT, ROOM),
    *(Arm(f"tenantry, {name}", name, PRESSURE) for name in ORDERINGS),
)
ARMS: Final = (
    Arm(STOCK, None, ROOM),
    *OURS,
    Arm(AGAIN, None, PRESSURE),
    Arm(CONTROL, None, PRESSURE),
)


def WrongBlock(**arguments: Any) -> Any:  # noqa: N802 - named like a class
    """vLLM's scheduler, but every new request with more than two blocks reads block 1."""
    from vllm.v1.core.sched.scheduler import Scheduler  # noqa: PLC0415 - takes seconds

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


def run_here(prompts: str) -> Iterator[Result]:
    """Run every arm in this process."""
    engine = real_engine.start()
    for arm in ARMS:
        if arm.ordering is not None:
            make = real_engine.ours(arm.ordering)
        else:
            make = WrongBlock if arm.name == CONTROL else real_engine.Capture
        scheduler = engine.use(make, arm.blocks)
        digest = _digest(engine, prompts)
        conductor = getattr(scheduler, "conductor", None)
        yield Result(
            arm.name,
            digest,
            preemptions=engine.since("num_preemptions"),
            hits=engine.since("prefix_cache_hits"),
            tenants=len(conductor.book.presence.seen) if conductor else 0,
        )


def _digest(engine: real_engine.Engine, prompts: str) -> str:
    from vllm import SamplingParams  # noqa: PLC0415 - takes seconds

    rng = random.Random(2)  # noqa: S311 - a load
    tenants = real_engine.TENANTS
    parameters = [
        SamplingParams(
            temperature=0,
            max_tokens=rng.randrange(10, 80),
            ignore_eos=True,
            extra_args={"tenantry": tenants[number % len(tenants)]},
        )
        for number in range(REQUESTS)
    ]
    outputs = engine.generate(real_engine.prompts_of(prompts, REQUESTS), parameters)
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:12]


def run_all() -> dict[str, list[Result]]:
    """Every arm with both kinds of prompts, in two processes at once."""
    module = "tenantry_engine.tests.oracle"
    runs = {prompts: real_engine.begin(module, "--prompts", prompts) for prompts in PROMPTS}
    return {
        prompts: [Result(**each) for each in real_engine.found(run)]
        for prompts, run in runs.items()
    }


def findings(results: Sequence[Result], prompts: str) -> Iterator[str]:
    """What is wrong with the results for these prompts: nothing, one hopes."""
    by_name = {result.arm: result for result in results}
    stock = by_name[STOCK]
    for arm in (*OURS, Arm(AGAIN, None, PRESSURE)):
        result = by_name[arm.name]
        if result.digest != stock.digest:
            yield f"{arm.name}: other tokens than stock"
        if arm.ordering is not None and result.tenants != len(real_engine.TENANTS):
            yield f"{arm.name}: tenants were not told apart, so nothing was shown"
        if arm.blocks == PRESSURE and not result.preemptions:
            yield f"{arm.name}: nothing was preempted, so nothing was shown"
        if prompts == "shared" and not result.hits:
            yield f"{arm.name}: no prefix was hit, so nothing was shown"
    if by_name[CONTROL].digest == stock.digest:
        yield f"{CONTROL}: the same tokens as stock: the oracle is blind"


def main(argv: Sequence[str]) -> int:
    """Print the table; 0 if every hash is as it should be, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tenantry_engine.tests.oracle")
    parser.add_argument("--prompts", choices=PROMPTS, help=argparse.SUPPRESS)
    prompts = parser.parse_args(argv).prompts
    if prompts is not None:
        real_engine.say([asdict(result) for result in run_here(prompts)])
    wrong = []
    for kind, results in run_all().items():
        sys.stdout.write(f"{kind + ' prompts':34} {'hash':14} {'preempted':>9} {'cached':>7}\n")
        for each in results:
            line = f"  {each.arm:32} {each.digest:14} {each.preemptions:9} {each.hits:7}\n"
            sys.stdout.write(line)
        wrong += [f"{kind}, {finding}" for finding in findings(results, kind)]
    sys.stdout.write("\n".join(wrong) + "\n" if wrong else "the tokens are the same\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
