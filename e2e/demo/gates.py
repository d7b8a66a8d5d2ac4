"""What must hold for the demo to succeed, judged from the rows alone. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from e2e.demo.arms import ALONE, ARMS, QUIET, STOCK, TENANTRY, Pass
from tenantry_bench.load import EVERYBODY
from tenantry_bench.results import Gate, Row
from tenantry_bench.table import worst

MEASURED = 150
"""Requests of the quiet tenant that every arm must have finished."""

BOUNDS = {"ttft": 1 / 5, "e2e": 1 / 3, "itl": 1 / 2}
"""The quiet tenant's P99 with Tenantry over that on stock vLLM, at most."""

THROUGHPUT = 0.75
THROUGHPUT_GOAL = 0.95
LAG_SECONDS = 0.025
CONTRAST = 10.0
"""Stock's TTFT P99 must be so many times that of the tenant alone, or there is no noise to tame."""


class Verdict(IntEnum):
    """How the demo ended, as its exit status."""

    PASSED = 0
    MISSED = 1
    BUSY = 3


@dataclass(frozen=True)
class Judgement:
    """The gates of a pass, and what must hold for them to mean anything."""

    preconditions: tuple[Gate, ...]
    gates: tuple[Gate, ...]

    @property
    def verdict(self) -> Verdict:
        if not all(gate.reached for gate in self.preconditions):
            return Verdict.BUSY
        return Verdict.PASSED if all(gate.reached for gate in self.gates) else Verdict.MISSED


def judge(measured: Pass) -> Judgement:
    """Judge one pass over all arms."""
    return Judgement(tuple(_preconditions(measured)), tuple(_gates(measured)))


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def p99_ratio(measured: Pass, measure: str, arms: tuple[str, str]) -> float | None:
    """The quiet tenant's P99 on the first arm over that on the second."""
    first, second = (getattr(measured.row(arm, QUIET), measure).p99 for arm in arms)
    return ratio(first, second)


def throughput_ratio(measured: Pass) -> float | None:
    """Tokens per second of everybody with Tenantry over those on stock vLLM."""
    ours, stock = (measured.row(arm, EVERYBODY).tokens_per_second for arm in (TENANTRY, STOCK))
    return ratio(ours, stock)


def _at_most(name: str, text: str, value: float | None, bound: float, unit: str) -> Gate:
    return Gate(name, text, "<=", bound, value, unit, value is not None and value <= bound)


def _at_least(name: str, text: str, value: float | None, bound: float, unit: str) -> Gate:
    return Gate(name, text, ">=", bound, value, unit, value is not None and value >= bound)


def _preconditions(measured: Pass) -> Iterator[Gate]:
    for arm in ARMS:
        text = f"P99 lateness of the load generator on arm {arm.name}"
        lag = worst(measured.lags[arm.name])
        yield _at_most(f"lag.{arm.name}", text, lag, LAG_SECONDS, "s")
    text = "TTFT P99 of the quiet tenant on stock vLLM over alone"
    value = p99_ratio(measured, "ttft", (STOCK, ALONE))
    yield _at_least("contrast.ttft.p99", text, value, CONTRAST, "ratio")


def _gates(measured: Pass) -> Iterator[Gate]:
    for measure, bound in BOUNDS.items():
        text = f"{measure.upper()} P99 of the quiet tenant, Tenantry over stock"
        value = p99_ratio(measured, measure, (TENANTRY, STOCK))
        yield _at_most(f"quiet.{measure}.p99", text, value, bound, "ratio")
    text = f"tokens per second of everybody, Tenantry over stock (goal {THROUGHPUT_GOAL})"
    yield _at_least("throughput", text, throughput_ratio(measured), THROUGHPUT, "ratio")
    for arm in ARMS:
        yield from _served(arm.name, measured.row(arm.name, QUIET))


def _served(arm: str, row: Row) -> Iterator[Gate]:
    text = f"requests of the quiet tenant finished on arm {arm}"
    yield Gate(
        f"quiet.n.{arm}",
        text,
        "==",
        MEASURED,
        row.finished,
        "requests",
        row.finished == row.arrived == MEASURED,
    )
    lost = row.refused + row.failed + row.unfinished
    text = f"requests of the quiet tenant refused, failed or unfinished on arm {arm}"
    yield _at_most(f"quiet.lost.{arm}", text, lost, 0, "requests")
