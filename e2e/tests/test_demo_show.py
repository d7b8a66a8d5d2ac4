"""What the demo prints and writes is what it measured."""

import json
from pathlib import Path

import pytest

from e2e import paths
from e2e.demo import show
from e2e.demo.arms import TENANTRY
from e2e.demo.gates import judge
from e2e.tests.demo_rows import a_pass, quiet
from tenantry_bench.results import from_document


def test_the_sentence_names_all_three_waits_and_what_it_costs() -> None:
    text = show.sentence(a_pass())
    assert all(part in text for part in ("3,500 ms", "80.0 ms", "40.0 ms", "44 times", "94%"))
    assert text.count(". ") == 0


def test_the_table_shows_every_arm_and_how_much_worse_than_alone_it_is() -> None:
    text = show.table(a_pass())
    assert all(word in text for word in ("stock", "tenantry", "alone", "87.5x", "2.0x"))


def test_a_late_generator_is_flagged_in_the_table() -> None:
    assert "12.0 !" in show.table(a_pass(lag=0.012))


def test_every_gate_has_a_line_and_a_missed_one_is_named_in_the_verdict() -> None:
    judgement = judge(a_pass(quiet(TENANTRY, 3.0, 0.02, 0.33)))
    lines = show.gate_lines(judgement)
    assert len(lines) == len(judgement.gates) + len(judgement.preconditions)
    assert [line for line in lines if line.startswith("MISS")] == [
        lines[len(judgement.preconditions)]
    ]
    assert "quiet.ttft.p99" in show.verdict_line(judgement)


def test_a_busy_machine_is_said_in_one_sentence() -> None:
    text = show.verdict_line(judge(a_pass(lag=0.03)))
    assert text.startswith("machine too busy to tell")
    assert "\n" not in text


@pytest.mark.parametrize(("lag", "told"), [(0.001, True), (0.03, False)], ids=["idle", "busy"])
def test_what_a_busy_machine_showed_is_not_told_as_a_finding(lag: float, told: bool) -> None:
    measured = a_pass(lag=lag)
    judgement = judge(measured)
    text = show.report(measured, judgement)
    assert (show.sentence(measured) in text) is told
    assert show.table(measured) in text
    assert all(line in text for line in show.gate_lines(judgement))
    assert (show.sentence(measured) in show._caption(measured, judgement)) is told


def test_picture_and_document_are_written_with_rows_and_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    measured = a_pass()
    picture, results = show.write(measured, judge(measured), "make demo")
    assert picture.read_bytes().startswith(b"\x89PNG")
    body = json.loads(results.read_text())
    assert body["schema"] == "tenantry.dev/results/v1"
    assert {gate["id"] for gate in body["gates"]} >= {"quiet.ttft.p99", "throughput", "lag.stock"}
    rows, _ = from_document({**body, "dispatch_lateness": _without_arms(body)})
    assert tuple(rows) == measured.rows


def _without_arms(body: dict[str, dict[str, object]]) -> dict[str, object]:
    return {key: value for key, value in body["dispatch_lateness"].items() if key != "arms"}
