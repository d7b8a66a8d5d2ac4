"""A trace file as a scenario."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tenantry_bench.errors import BadInputError
from tenantry_bench.recorded import TraceRequest, read_trace
from tenantry_bench.simulator.scenario import LIMIT, POSITIONS, Recorded, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NOBODY = "default"
"""Whose a request without a tenant is."""


def scenario(path: Path) -> Scenario:
    """Return the trace of a file as a scenario that runs until everything has ended.

    Raises BadInputError that names each line that cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--trace {path}: cannot read it: {error}") from error
    lines = read_trace(text, f"--trace {path}")
    given = [each for number, line in enumerate(lines, 1) for each in _requests(number, line)]
    found = list(_with_names_of_their_own(given))
    last = max(each.t for each in found)
    return Scenario(
        name=path.stem,
        text=f"{len(found):,} requests of the trace {path.name}{_remarks(given)}",
        tenants=(),
        duration=math.nextafter(last, math.inf),
        window=(0.0, math.inf),
        drain=True,
        trace=tuple(sorted(found, key=lambda each: each.t)),
    )


def _requests(number: int, line: TraceRequest) -> list[Recorded]:
    """The requests of a line: `n` answers to one prompt are as many requests to a scheduler."""
    name = line.id or f"request-{number}"
    limit = LIMIT if line.max_tokens is None else line.max_tokens
    output = limit if line.out is None else line.out
    return [
        Recorded(
            name=name if line.n == 1 else f"{name}/{index}",
            tenant=line.tenant or NOBODY,
            t=line.t,
            prompt=line.prompt,
            output=max(output, 1),
            limit=max(limit, 1) if line.max_tokens is not None else max(limit, output),
            priority=line.priority or 0,
            shared=line.hash_ids,
            cancel_at=line.cancel_at,
            refused=limit < 1 or line.prompt + line.output > POSITIONS,
        )
        for index in range(line.n)
    ]


def _with_names_of_their_own(given: Sequence[Recorded]) -> Iterator[Recorded]:
    """The requests, where an id that was taken before is made another one, as vLLM does."""
    taken = {each.name for each in given}
    seen: set[str] = set()
    for each in given:
        name, number = each.name, 2
        while name in seen or (name != each.name and name in taken):
            name, number = f"{each.name}#{number}", number + 1
        seen.add(name)
        yield each if name == each.name else replace(each, name=name)


def _remarks(given: Sequence[Recorded]) -> str:
    """What the user should know of the file, in brackets."""
    twice = len(given) - len({each.name for each in given})
    refused = sum(each.refused for each in given)
    said = (
        "not in order of time" * any(b.t < a.t for a, b in pairwise(given)),
        f"{twice:,} with an id that another has" * bool(twice),
        f"{refused:,} of no length that the engine takes, which it refuses" * bool(refused),
    )
    told = "; ".join(filter(None, said))
    return f" ({told})" if told else ""
