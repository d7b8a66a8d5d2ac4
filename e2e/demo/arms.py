"""The arms of the demo: which load goes to which server, one after the other."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from e2e import paths
from e2e.demo.progress import Progress
from e2e.problem import Problem
from tenantry_bench.results import Row, from_document
from tenantry_core.quantiles import Summary

if TYPE_CHECKING:
    import subprocess

SCENARIO = "noisy-neighbour"
STOCK, TENANTRY, ALONE = "stock", "tenantry", "alone"
QUIET = "quiet"
SEED = 1
SEEDS = (SEED, SEED + 1)
"""Of the first pass and of its repetition: no prompt is sent to a server twice."""


@dataclass(frozen=True)
class Arm:
    """A load on one of the two servers."""

    name: str
    server: str
    load: str


ARMS = (
    Arm(STOCK, STOCK, SCENARIO),
    Arm(TENANTRY, TENANTRY, SCENARIO),
    Arm(ALONE, STOCK, "quiet-alone"),
)


class Place(Protocol):
    """Where the two servers run."""

    def where(self, server: str) -> Sequence[str]:
        """The arguments by which `tenantry bench` reaches a server."""

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a command that reaches the servers; its standard output is a pipe."""

    def check(self) -> None:
        """Raise `Problem` when something that should run has died."""


@dataclass(frozen=True)
class Pass:
    """What one pass over all arms has measured: rows, and the generator's lateness by arm."""

    seed: int
    rows: tuple[Row, ...]
    lags: dict[str, Summary]
    version: str | None

    def row(self, arm: str, tenant: str) -> Row:
        return next(row for row in self.rows if (row.arm, row.tenant) == (arm, tenant))


def measure(place: Place, seed: int, progress: Progress) -> Pass:
    """Put the load of every arm on its server, with one seed, and return what was measured."""
    rows: list[Row] = []
    lags: dict[str, Summary] = {}
    version: str | None = None
    for arm in ARMS:
        with progress.step(f"load {arm.load} on arm {arm.name}"):
            body = _bench(place, arm, seed)
        found, lags[arm.name] = from_document(body)
        rows += [replace(row, scenario=SCENARIO) for row in found]
        version = version or body["engine"]["vllm"]
    return Pass(seed, tuple(rows), lags, version)


def _bench(place: Place, arm: Arm, seed: int) -> dict[str, Any]:
    argv = [
        str(paths.venv() / "bin" / "tenantry"),
        "bench",
        *place.where(arm.server),
        f"--load={arm.load}",
        f"--arm={arm.name}",
        f"--seeds={seed}",
        "-o",
        "json",
    ]
    place.check()
    with place.start(argv) as process:
        try:
            out, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    place.check()
    if process.returncode not in (0, 1):  # 1: some requests failed, which the gates judge
        raise Problem(
            f"the load generator ended with {process.returncode} on arm {arm.name}; "
            "its message stands above"
        )
    body: dict[str, Any] = json.loads(out)
    return body
