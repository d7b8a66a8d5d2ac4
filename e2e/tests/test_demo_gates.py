"""When the demo succeeds, when it fails, and when it says that it cannot tell."""

from dataclasses import replace
from typing import Any

import pytest

from e2e.demo.arms import ALONE, ARMS, QUIET, STOCK, TENANTRY, Pass
from e2e.demo.gates import Verdict, judge
from e2e.demo.main import passes
from e2e.demo.progress import Progress
from e2e.tests.demo_rows import a_pass, a_row, quiet
from tenantry_bench.load import EVERYBODY
from tenantry_bench.results import Row
from tenantry_core.quantiles import EMPTY


def test_a_pass_that_keeps_every_bound_succeeds() -> None:
    judgement = judge(a_pass())
    assert judgement.verdict is Verdict.PASSED
    assert int(judgement.verdict) == 0


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (quiet(TENANTRY, 0.71, 0.02, 0.33), "quiet.ttft.p99"),
        (quiet(TENANTRY, 0.08, 0.11, 0.33), "quiet.itl.p99"),
        (quiet(TENANTRY, 0.08, 0.02, 1.41), "quiet.e2e.p99"),
        (a_row(TENANTRY, EVERYBODY, 134_000), "throughput"),
        (replace(quiet(TENANTRY, 0.08, 0.02, 0.33), itl=EMPTY), "quiet.itl.p99"),
    ],
    ids=["TTFT", "ITL", "E2E", "throughput", "nothing measured"],
)
def test_each_missed_bound_is_named_and_fails_the_demo(changed: Row, missed: str) -> None:
    judgement = judge(a_pass(changed))
    assert judgement.verdict is Verdict.MISSED
    assert [gate.id for gate in judgement.gates if not gate.reached] == [missed]


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        (quiet(TENANTRY, 0.70, 0.10, 1.40), True),
        (a_row(TENANTRY, EVERYBODY, 135_000), True),
        (quiet(TENANTRY, 0.7001, 0.10, 1.40), False),
    ],
    ids=["latency at the bound", "throughput at the bound", "just above"],
)
def test_a_bound_itself_is_reached(changed: Row, reached: bool) -> None:
    assert (judge(a_pass(changed)).verdict is Verdict.PASSED) == reached


@pytest.mark.parametrize("arm", [arm.name for arm in ARMS])
@pytest.mark.parametrize("lost", ["refused", "failed", "unfinished"])
def test_a_lost_request_of_the_quiet_tenant_fails_the_demo_on_every_arm(
    arm: str, lost: str
) -> None:
    usual = a_pass().row(arm, QUIET)
    losses: dict[str, Any] = {lost: 1, "finished": 149}
    changed = replace(usual, **losses)
    judgement = judge(a_pass(changed))
    assert judgement.verdict is Verdict.MISSED
    assert {g.id for g in judgement.gates if not g.reached} == {
        f"quiet.n.{arm}",
        f"quiet.lost.{arm}",
    }


def test_the_noisy_tenant_may_lose_requests() -> None:
    assert judge(a_pass(replace(a_row(STOCK, "noisy"), unfinished=32))).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "measured",
    [
        a_pass(lag=0.026),
        a_pass(quiet(STOCK, 0.39, 0.2, 4.2)),
        a_pass(quiet(ALONE, 0.36, 0.02, 0.2)),
    ],
    ids=["late generator", "stock hardly slower", "alone already slow"],
)
def test_a_machine_too_busy_is_neither_success_nor_failure(measured: Pass) -> None:
    judgement = judge(measured)
    assert judgement.verdict is Verdict.BUSY
    assert int(judgement.verdict) == 3


def test_a_lag_that_is_only_flagged_does_not_spoil_the_verdict() -> None:
    assert judge(a_pass(lag=0.024)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("lags", "seeds", "verdict"),
    [
        ([0.001], [1], Verdict.PASSED),
        ([0.030, 0.001], [1, 2], Verdict.PASSED),
        ([0.030, 0.030], [1, 2], Verdict.BUSY),
    ],
    ids=["idle", "busy once", "busy twice"],
)
def test_the_arms_are_repeated_once_when_the_machine_was_too_busy(
    lags: list[float], seeds: list[int], verdict: Verdict
) -> None:
    tried: list[int] = []

    def one(seed: int) -> Pass:
        tried.append(seed)
        return a_pass(lag=lags[len(tried) - 1])

    _, judgement = passes(one, Progress())
    assert (tried, judgement.verdict) == (seeds, verdict)


def test_a_missed_bound_is_not_tried_again() -> None:
    tried: list[int] = []

    def one(seed: int) -> Pass:
        tried.append(seed)
        return a_pass(quiet(TENANTRY, 3.0, 0.02, 0.33))

    _, judgement = passes(one, Progress())
    assert (tried, judgement.verdict) == ([1], Verdict.MISSED)
