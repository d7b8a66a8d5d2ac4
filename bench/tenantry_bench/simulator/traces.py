"""A trace file as a scenario."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tenantry_bench.errors import BadInputError
from tenantry_bench.recorded import SHOWN, TraceRequest, read_trace
from tenantry_bench.simulator.scenario import LIMIT, POSITIONS, Recorded, Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOBODY = "default"
"""Whose a request without a tenant is."""


def scenario(path: Path) -> Scenario:
    """Return the trace of a file as a scenario that runs until everything has ended.

    Raises BadInputError that names each line or request that cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--trace {path}: cannot read it: {error}") from error
    lines = read_trace(text, f"--trace {path}")
    found = [each for number, line in enumerate(lines, 1) for each in _requests(number, line)]
    _check(path, found)
    last = max(each.t for each in found)
    return Scenario(
        name=path.stem,
        text=f"{len(found):,} requests of the trace {path.name}",
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
        )
        for index in range(line.n)
    ]


def _check(path: Path, found: Sequence[Recorded]) -> None:
    seen: set[str] = set()
    bad = []
    for each in found:
        if each.name in seen:
            bad.append(f"the id {each.name} is given twice")
        seen.add(each.name)
        if each.prompt + min(each.output, each.limit) > POSITIONS:
            bad.append(
                f"{each.name}: prompt {each.prompt} and output {min(each.output, each.limit)} "
                f"are more than the {POSITIONS} tokens that the engine takes"
            )
    if bad:
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise BadInputError(f"--trace {path}: {'; '.join(bad[:SHOWN])}{more}")
