"""Quantities and durations, there and back."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry_api import values


@settings(deadline=None)
@given(st.integers(0, 1_000_000_000))
def test_a_quantity_reads_back_as_itself(thousandths: int) -> None:
    number = Decimal(thousandths) / 1000
    assert values.quantity(values.quantity_text(number)) == number


@settings(deadline=None)
@given(st.integers(1, 604_800_000_000))
def test_a_duration_reads_back_as_itself(micros: int) -> None:
    span = timedelta(microseconds=micros)
    assert values.duration(values.duration_text(span)) == span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("100us", 0.0001),
        ("168h", 604800.0),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_a_duration_may_be_written_in_many_ways(text: str, seconds: float) -> None:
    assert values.duration(text).total_seconds() == seconds


@pytest.mark.parametrize("value", [None, 5, 1.5, True, "", "s", "1", "0s", "-1s", "0.1us", "169h"])
def test_what_is_no_duration_is_refused_with_the_way_out(value: object) -> None:
    with pytest.raises(ValueError, match='as "500ms", "30s" or "1m30s"'):
        values.duration(value)


@pytest.mark.parametrize(
    "value", [None, True, -1, 0.5, float("nan"), float("inf"), "NaN", "inf", "", "1e3", "1.0000"]
)
def test_what_is_no_quantity_is_refused_with_the_way_out(value: object) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1000000"):
        values.quantity(value)


def test_a_number_with_a_point_is_shown_as_it_has_to_be_written() -> None:
    with pytest.raises(ValueError, match=r'write "1[.]5", with the quotes'):
        values.quantity(1.5)
    assert values.quantity("1.5") == Decimal("1.5")


def test_a_whole_number_that_an_editor_wrote_with_a_point_is_a_quantity() -> None:
    assert values.quantity(3.0) == 3


def test_auto_is_a_budget_without_a_number() -> None:
    assert values.budget("auto") is None
    assert values.budget_text(None) == "auto"
    assert values.budget("50ms") == timedelta(milliseconds=50)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("kv_cache", "kvCache"), ("e2e", "e2e"), ("p99", "p99"), ("queued_tokens", "queuedTokens")],
)
def test_a_field_has_one_name_in_documents(name: str, expected: str) -> None:
    assert values.camel(name) == expected


def test_code_may_pass_the_values_themselves() -> None:
    assert values.quantity(Decimal("0.5")) == Decimal("0.5")
    assert values.duration(timedelta(seconds=90)) == timedelta(seconds=90)
