"""Looks for counters that drift: random runs of every cell, with a recount after every step.

`python -m tenantry_engine.tests.drift --steps 10000` plays every cell (each ordering, each kind of
fairness, both of vLLM's schedulers) and prints one line for each; 1 if anything drifted. `--other`
does so with the classes of another vLLM release. With `--order` it prints what was scheduled when,
as one hash: two processes must agree on it, whatever the seed of their hash function.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from e2e import engines
from tenantry_api.choices import Fairness
from tenantry_core.ordering import ORDERINGS
from tenantry_engine.tests import recount
from tenantry_engine.tests.recount import CELLS, Cell


def order(steps: int) -> str:
    """The hash of who was scheduled when, with every ordering."""
    digest = hashlib.sha256()
    for ordering in ORDERINGS:
        load = recount.play(Cell(ordering, Fairness.GPU_TIME, use_async=False), steps)
        log = [list(shot.tokens.items()) for shot in load.engine.log]
        digest.update(json.dumps(log).encode())
    return digest.hexdigest()


def lines(steps: int) -> Iterator[tuple[bool, str]]:
    """Play every cell: whether nothing drifted, and a line of the table."""
    for cell in CELLS:
        begun = time.monotonic()
        try:
            load = recount.play(cell, steps)
        except AssertionError as error:
            yield False, f"{cell.name:30} {error}"
            continue
        took = time.monotonic() - begun
        made = sum(load.engine.generated.values())
        text = (
            f"{cell.name:30} {len(load.wanted):6} requests {made:7} tokens "
            f"{load.engine.preempted:5} preempted {len(load.aborted):5} aborted {took:5.1f} s"
        )
        yield True, text


def with_other(steps: int) -> int:
    """The same in a process that has the other vLLM release."""
    command = [sys.executable, "-m", "tenantry_engine.tests.drift", "--steps", str(steps)]
    environ = engines.environment(os.environ, engines.other())
    return subprocess.run(command, env=environ, check=False).returncode  # noqa: S603 - ourselves


def main(argv: Sequence[str]) -> int:
    """The command; 1 if a counter drifted."""
    parser = argparse.ArgumentParser(prog="python -m tenantry_engine.tests.drift")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of each cell")
    parser.add_argument("--order", action="store_true", help="print the hash of the order only")
    parser.add_argument("--other", action="store_true", help=f"with vLLM {engines.OTHER}")
    arguments = parser.parse_args(argv)
    if arguments.other:
        return with_other(arguments.steps)
    if arguments.order:
        sys.stdout.write(order(arguments.steps) + "\n")
        return 0
    sound = True
    for good, line in lines(arguments.steps):
        sound &= good
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
