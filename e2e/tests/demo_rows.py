"""Rows of a pass over the demo's arms, as a builder with defaults that pass every gate."""

from dataclasses import replace

from e2e.demo.arms import ALONE, ARMS, QUIET, SCENARIO, STOCK, TENANTRY, Pass
from tenantry_bench.load import EVERYBODY
from tenantry_bench.results import Row
from tenantry_bench.tests import rows
from tenantry_core.quantiles import Summary, summarize

NOISY = "noisy"


def waits(seconds: float) -> Summary:
    return summarize([seconds] * 150)


def a_row(arm: str, tenant: str = QUIET, tokens: int = 1000) -> Row:
    row = rows.a_row(arm, tenant=tenant)
    return replace(row, scenario=SCENARIO, prompt_tokens=tokens, output_tokens=0, service=tokens)


def quiet(arm: str, ttft: float, itl: float, e2e: float) -> Row:
    return replace(a_row(arm), ttft=waits(ttft), itl=waits(itl), e2e=waits(e2e))


def a_pass(*changed: Row, lag: float = 0.002) -> Pass:
    """A pass with these rows in the place of the usual ones."""
    usual = [
        quiet(STOCK, 3.5, 0.2, 4.2),
        quiet(TENANTRY, 0.08, 0.02, 0.33),
        quiet(ALONE, 0.04, 0.02, 0.2),
        a_row(STOCK, NOISY, 170_000),
        a_row(TENANTRY, NOISY, 160_000),
        a_row(STOCK, EVERYBODY, 180_000),
        a_row(TENANTRY, EVERYBODY, 170_000),
        a_row(ALONE, EVERYBODY, 9_000),
    ]
    rows = {(row.arm, row.tenant): row for row in [*usual, *changed]}
    lags = {arm.name: summarize([lag] * 100) for arm in ARMS}
    return Pass(1, tuple(rows.values()), lags, "0.32.0")
