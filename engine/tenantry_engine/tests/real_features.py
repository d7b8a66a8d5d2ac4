"""Samples, aborts and structured output on the real engine, with vLLM's scheduler and with ours.

`python -m tenantry_engine.tests.real_features` prints what both made of the same requests.
"""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from e2e.poll import until
from tenantry_core.ordering import DEFAULT
from tenantry_engine.tests import real_engine
from tenantry_engine.tests.real_engine import TENANTS, Engine

REQUESTS: Final = 60
BLOCKS: Final[Mapping[str, int]] = MappingProxyType({"samples": 60, "aborts": 60, "structured": 40})
"""So few that requests have to be sent back, with either scheduler."""
CHOICES: Final = ("aaa", "aab", "aac")
Tokens = dict[str, list[int]]


def samples(engine: Engine) -> Tokens:
    """Two samples of each request, each drawn from the one likeliest token."""
    parameters = [
        _parameters(number, 10 + number % 30, n=2, temperature=1.0, top_k=1)
        for number in range(REQUESTS)
    ]
    outputs = engine.generate(real_engine.prompts_of("independent", REQUESTS), parameters)
    return {
        f"{number} {sample.index}": list(sample.token_ids)
        for number, output in enumerate(outputs)
        for sample in output.outputs
    }


def aborts(engine: Engine) -> Tokens:
    """Every third request is given up: while it waits, in its prompt or after some tokens."""
    rng = random.Random(3)  # noqa: S311 - a load
    parameters = [_parameters(number, 10 + number % 30) for number in range(REQUESTS)]
    vllm, made = engine.llm.llm_engine, _start(engine, "independent", parameters)
    given_up = {name: rng.randrange(25) for name in made if int(name.split()[1]) % 3 == 0}
    while vllm.has_unfinished_requests():
        for output in vllm.step():
            made[output.request_id] = list(output.outputs[0].token_ids)
        for name, after in list(given_up.items()):
            if len(made[name]) >= after:
                vllm.abort_request([name])
                del given_up[name]
    return made


def structured(engine: Engine) -> Tokens:
    """Answers that a regular expression allows, and those that one of three words is."""
    from vllm.sampling_params import StructuredOutputsParams  # noqa: PLC0415 - takes seconds

    grammars = (
        {"choice": list(CHOICES)},
        {"regex": "(aaa|aab)( aac){3,12}"},
        {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    )
    parameters = [
        _parameters(
            number,
            24,
            structured_outputs=StructuredOutputsParams(**grammars[number % 3]),
            ignore_eos=False,
        )
        for number in range(REQUESTS)
    ]
    vllm, made = engine.llm.llm_engine, _start(engine, "shared", parameters)
    # Those whose grammar is compiled later would begin later, on a busy machine more of them.
    waiting = engine.core.scheduler.requests.values()
    until("the grammars", lambda: all(r.structured_output_request.grammar for r in waiting))
    while vllm.has_unfinished_requests():
        for output in vllm.step():
            made[output.request_id] = list(output.outputs[0].token_ids)
    return made


LOADS: Final[Mapping[str, Callable[[Engine], Tokens]]] = MappingProxyType(
    {"samples": samples, "aborts": aborts, "structured": structured}
)


def _parameters(number: int, tokens: int, **more: Any) -> Any:
    from vllm import SamplingParams  # noqa: PLC0415 - takes seconds

    tenant = TENANTS[number % len(TENANTS)]
    given = {"temperature": 0.0, "ignore_eos": True, **more}
    return SamplingParams(max_tokens=tokens, extra_args={"tenantry": tenant}, **given)


def _start(engine: Engine, kind: str, parameters: Sequence[Any]) -> Tokens:
    made: Tokens = {}
    for number, ids in enumerate(real_engine.prompts_of(kind, REQUESTS)):
        name = f"{kind} {number}"
        made[name] = []
        engine.llm.llm_engine.add_request(name, {"prompt_token_ids": ids}, parameters[number])
    return made


def run_here() -> dict[str, Any]:
    """Every load with both schedulers: tokens, preemptions, and what is left of the requests."""
    engine = real_engine.start()
    found: dict[str, Any] = {}
    for load, play in LOADS.items():
        for who, make in (("stock", real_engine.Capture), ("ours", real_engine.ours(DEFAULT))):
            scheduler = engine.use(make, BLOCKS[load])
            tokens = play(engine)
            free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
            found[f"{load} {who}"] = {
                "tokens": tokens,
                "preemptions": engine.since("num_preemptions"),
                "left": len(scheduler.requests) + BLOCKS[load] - 1 - free,
                "scheduler": type(scheduler).__name__,
            }
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        real_engine.say(run_here())
    results = real_engine.found(real_engine.begin("tenantry_engine.tests.real_features", "--here"))
    for name, result in results.items():
        made = sum(map(len, result["tokens"].values()))
        sys.stdout.write(f"{name:20} {made:6} tokens {result['preemptions']:4} preempted\n")
