"""`python -m tenantry_bench.gates.drift ORDERING STEPS`: random loads whose counters are recounted.

A process of its own, so that another release of vLLM can be put before the installed one. Prints
one JSON document. Needs a checkout: the loads are among the engine's tests.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from tenantry_api.choices import Fairness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECOUNT: Final = "tenantry_engine.tests.recount"
ENGINES: Final = "e2e.engines"
"""Knows where the other release of vLLM is, and fetches it the first time."""
MODULE: Final = "tenantry_bench.gates.drift"
SHOWN: Final = 400
"""Characters of what a process said last."""


def measured(ordering: str, steps: int, *, other: bool) -> dict[str, Any]:
    """Return the number of cells, what drifted, and vLLM's version.

    Raises ImportError outside a checkout and RuntimeError where the process fails.
    """
    environ = dict(os.environ)
    importlib.import_module(RECOUNT)
    if other:
        engines: Any = importlib.import_module(ENGINES)
        environ = engines.environment(environ, engines.other())
    ran = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", MODULE, ordering, str(steps)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip()[-SHOWN:])
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _played(play: Callable[..., Any], cell: Any, steps: int) -> str:
    try:
        play(cell, steps)
    except AssertionError as error:
        return f"{cell.name}: {error}"
    return ""


def main(argv: Sequence[str]) -> int:
    """Play the cells of an ordering with fairness in GPU time: both of vLLM's schedulers."""
    ordering, steps = argv[0], int(argv[1])
    recount: Any = importlib.import_module(RECOUNT)
    offline: Any = importlib.import_module("tenantry_engine.offline")
    cells = [
        cell
        for cell in recount.CELLS
        if cell.ordering == ordering and cell.fairness == Fairness.GPU_TIME
    ]
    drifted = [text for cell in cells if (text := _played(recount.play, cell, steps))]
    body = {"cells": len(cells), "drifted": drifted, "vllm": offline.VERSION}
    print(json.dumps(body))  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
