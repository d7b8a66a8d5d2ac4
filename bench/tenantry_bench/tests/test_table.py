"""The table, the picture and the report show what the rows say."""

import pytest

from tenantry_bench.picture import png
from tenantry_bench.report import page
from tenantry_bench.results import About
from tenantry_bench.table import Shown, inflation, late, number, percentile, render
from tenantry_bench.tests.rows import a_row
from tenantry_core.quantiles import EMPTY, summarize

TENTH = summarize([0.1] * 150)
WHOLE = summarize([1.0] * 150)
STOCK, ALONE = a_row("stock", WHOLE), a_row("alone", TENTH)
LAGS = {"stock": summarize([0.002] * 100), "alone": summarize([0.002] * 100)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (3.9721, "3,972"), (0.0295, "29.5"), (0.004567, "4.57"), (0.1, "100")],
)
def test_a_time_is_shown_in_milliseconds_with_three_figures(
    seconds: float | None, text: str
) -> None:
    assert number(seconds) == text


def test_a_percentile_that_n_cannot_carry_says_so() -> None:
    assert percentile(WHOLE, 999) == "n too small"
    assert percentile(WHOLE, 990) == "1,000"
    assert percentile(EMPTY, 500) == "-"


def test_a_percentile_that_an_unfinished_wait_could_raise_is_a_lower_bound() -> None:
    summary = summarize([0.1] * 148, lower_bounds=[0.5, 0.5])
    assert percentile(summary, 990) == ">=500"
    assert percentile(summary, 500) == "100"


def test_inflation_is_the_p99_over_that_of_the_same_tenant_alone() -> None:
    shown = Shown([STOCK, ALONE], LAGS, "alone")
    assert inflation(STOCK, "ttft", shown) == pytest.approx(10)
    assert inflation(ALONE, "ttft", shown) == pytest.approx(1)
    assert inflation(a_row(tenant="noisy", ttft=WHOLE), "ttft", shown) is None


def test_the_table_has_a_line_for_each_tenant_arm_and_measure_in_straight_columns() -> None:
    lines = render(Shown([STOCK, ALONE], LAGS, "alone")).splitlines()
    assert lines[0].split()[:4] == ["tenant", "arm", "loop", "ms"]
    assert lines[2].split()[:4] == ["quiet", "stock", "open", "TTFT"]
    assert "10.0x" in lines[2]
    assert {line.find("TTFT") for line in lines if "TTFT" in line} == {lines[0].find("ms")}
    assert "nearest rank" in "".join(lines)


def test_a_late_generator_is_flagged_in_its_line_and_below() -> None:
    lags = {"stock": summarize([0.012] * 100), "alone": LAGS["alone"]}
    text = render(Shown([STOCK, ALONE], lags))
    assert "12.0 !" in text.splitlines()[2]
    assert "late by more than 10 ms at P99 (stock)" in text
    assert not late(LAGS["alone"])


def test_the_picture_is_a_png_also_where_nothing_was_measured() -> None:
    for rows in ([STOCK, ALONE], [a_row()]):
        assert png(rows, "title").startswith(b"\x89PNG")


def test_the_report_is_one_file_with_everything_escaped() -> None:
    text = page(Shown([STOCK], LAGS), About("bench <x>", "0.1.0", None), "a & b", "says <this>")
    assert "data:image/png;base64," in text
    assert "a &amp; b" in text
    assert "bench &lt;x&gt;" in text
    assert "<x>" not in text
