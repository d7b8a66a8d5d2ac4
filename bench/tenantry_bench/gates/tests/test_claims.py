"""What a row says of a value."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_bench.gates import claims, report, smoke
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.results import About

TEXT = "about something"


@pytest.mark.parametrize(
    ("op", "bound", "value", "reached"),
    [
        ("<=", 2.0, 2.0, True),
        ("<=", 2.0, 2.01, False),
        (">=", 0.93, 0.93, True),
        (">=", 0.93, 0.92, False),
        ("==", 0.0, 0.0, True),
        ("==", 0.0, 1.0, False),
    ],
)
def test_a_bound_itself_is_reached(op: str, bound: float, value: float, reached: bool) -> None:
    assert Row(Claim("x", TEXT, op, bound), value).reached is reached


@given(st.floats(0.1, 10.0), st.floats(1.0, 2.0), st.sampled_from(["<=", ">="]))
def test_slack_only_ever_forgives(bound: float, slack: float, op: str) -> None:
    claim = Claim("x", TEXT, op, bound)
    edge = bound * slack if op == "<=" else bound / slack
    assert claim.holds(bound, slack)
    assert claim.holds(edge, slack)
    assert claim.holds(edge, 1.0) is (edge == bound)


def test_a_row_without_a_bound_is_printed_and_judges_nothing() -> None:
    row = Row(Claim("x", TEXT), 7.0)
    assert (row.reached, row.verdict) == (None, "printed")
    assert claims.status([row]) == 0


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([Row(Claim("x", TEXT, "<=", 1.0), 0.5)], 0),
        ([Row(Claim("x", TEXT, "<=", 1.0), 1.5)], 1),
        ([Row(Claim("x", TEXT, "<=", 1.0), lacking=claims.NO_DATA)], 3),
        ([Row(Claim("x", TEXT, "<=", 1.0), lacking=claims.NOTHING)], 0),
        (
            [
                Row(Claim("x", TEXT, "<=", 1.0), lacking=claims.NO_DATA),
                Row(Claim("y", TEXT, "<=", 1.0), 1.5),
            ],
            1,
        ),
    ],
    ids=[
        "all reached",
        "one missed",
        "one not run",
        "nothing to judge",
        "one missed and one not run",
    ],
)
def test_the_exit_status_says_missed_before_not_run(rows: list[Row], status: int) -> None:
    assert claims.status(rows) == status


def test_a_row_that_was_not_run_says_why() -> None:
    row = Row(Claim("x", TEXT, "<=", 1.0), lacking=claims.NO_DATA)
    assert row.verdict == "not run: no data"
    assert "not run: no data" in report.text([row])
    assert report.summary([row]) == "1 gates: 0 reached, 0 not reached, 1 not run"


def test_the_document_holds_what_a_results_document_asks_for() -> None:
    row = Row(Claim("N1.ttft.p99", TEXT, "<=", 2.3, "x"), 1.71, ((11, 1.7),), (1.6, 1.8), 170)
    body = report.document([row], About("make bench", "0.1.0", "0.32.0"))
    (gate,) = json.loads(json.dumps(body, allow_nan=False))["gates"]
    wanted = {"id": "N1.ttft.p99", "op": "<=", "bound": 2.3, "value": 1.71, "reached": True}
    assert wanted.items() <= gate.items()
    assert gate["seeds"] == {"11": 1.7}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.05012, "0.0501"), (0.9523, "0.952"), (31.04, "31.04"), (2875.6, "2,876")],
)
def test_numbers_have_the_digits_that_say_something(value: float, text: str) -> None:
    assert report.number(value) == text


def test_what_was_not_measured_again_stays_on_the_page() -> None:
    about = About("make bench", "0.1.0", "0.32.0")
    first, second = (replace(smoke.GROUP, title=title) for title in ("First", "Second"))
    reached, missed = (Row(Claim("x", TEXT, "<=", 1.0), value) for value in (0.5, 1.5))
    page = report.merged("", report.markdown([(first, [reached]), (second, [missed])], about, ""))
    assert "**1 gates reached, 1 not reached, 0 rows not run.**" in page
    again = report.merged(page, report.markdown([(second, [reached])], about, ""))
    assert "**2 gates reached, 0 not reached, 0 rows not run.**" in again
    assert [line for line in again.splitlines() if line.startswith("## ")] == [
        "## First",
        "## Second",
    ]
    assert report.merged(again, report.markdown([(first, [reached])], about, "")) == again
