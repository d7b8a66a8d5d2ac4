"""Numbers of a run that was written by hand, so that each is known; and the table of them."""

import pytest

from tenantry_bench.simulator import measure, show
from tenantry_bench.simulator.measure import Outcome, Sample
from tenantry_bench.simulator.record import Line, Log, Record
from tenantry_bench.simulator.scenario import Recorded, Tenant
from tenantry_bench.simulator.shares import series
from tenantry_bench.simulator.tests.small import SHORT, a_scenario

TENANTS = (Tenant("a", (SHORT,), rate=1.0), Tenant("b", (SHORT,), in_flight=1))
SCENARIO = a_scenario(*TENANTS, seconds=10.0, drain=False)


def a_record(name: str, tenant: int, t: float, times: list[float], **what: object) -> Record:
    body = Recorded(name, "ab"[tenant], t, prompt=100, output=3)
    record = Record(body, tenant)
    record.times = times
    record.first = times[0] - 0.5 if times else None
    record.ended = times[-1] if len(times) == 3 else None
    for key, value in what.items():
        setattr(record, key, value)
    return record


def a_log() -> Log:
    """Tenant a: one request through, one cut off in its answer. Tenant b: one never begun, one
    refused, one whose client left.
    """
    log = Log(("a", "b"))
    records = (
        a_record("a-0", 0, 1.0, [2.0, 2.5, 4.0]),
        a_record("a-1", 0, 2.0, [9.0]),
        a_record("b-0", 1, 3.0, []),
        a_record("b-1", 1, 4.0, [], refused=True, ended=4.0),
        a_record("b-2", 1, 4.0, [5.0], ended=6.0),
    )
    log.records = {record.body.name: record for record in records}
    log.lines = [
        Line(2.0, [0.5, 0.1], [100, 100], [1, 0], [False, True]),
        Line(9.0, [0.2, 0.0], [0, 0], [3, 1], [False, True]),
    ]
    log.preemptions = [(3.0, 0)]
    log.recomputed = [(3.0, 0, 40)]
    log.blocks = [(1.0, [10, 2]), (2.0, [20, 4])]
    log.end = 10.0
    return log


def an_outcome(log: Log, arm: str = "tenantry", seed: int = 1) -> Outcome:
    """What `outcome` makes of a run; a run is its log here."""
    return measure.judged(SCENARIO, arm, seed, [log])


def test_every_request_counts_once_whatever_became_of_it() -> None:
    found = an_outcome(a_log()).samples
    a, b = found["a"].counts, found["b"].counts
    assert (a["arrived"], a["finished"], a["unfinished"]) == (2, 1, 1)
    assert (b["arrived"], b["unfinished"], b["refused"], b["failed"]) == (3, 1, 1, 1)


def test_waits_begin_when_a_request_was_due_and_open_ones_count_so_far() -> None:
    a = an_outcome(a_log()).samples["a"]
    b = an_outcome(a_log()).samples["b"]
    assert [*a.ttft.done] == [1.0, 7.0]
    assert [*a.itl.done, *a.itl.open] == [0.5, 1.5, 1.0]
    assert [*a.e2e.done, *a.e2e.open] == [3.0, 8.0]
    assert [*a.tpot.done] == [1.0]
    assert [*a.queue.done] == [0.5, 6.5]
    assert [*b.ttft.open, *b.e2e.open, *b.queue.open] == [7.0, 7.0, 7.0]


def test_tokens_and_gpu_time_are_those_of_the_window() -> None:
    rows = {row.tenant: row for row in measure.rows([an_outcome(a_log())])}
    a, everybody = rows["a"], rows["*"]
    assert (a.prompt_tokens, a.output_tokens, a.service) == (100, 4, 108)
    assert a.gpu_seconds == pytest.approx(0.7)
    assert (a.preemptions, a.recomputed_tokens) == (1, 40)
    assert (a.kv_blocks_mean, a.kv_blocks_max) == (15.0, 20)
    assert (everybody.kv_blocks_max, everybody.service) == (24, 210)
    assert everybody.measured_seconds == 10.0
    assert (a.loop, rows["b"].loop, everybody.loop) == ("open", "closed", "mixed")


def test_a_token_is_late_against_the_tenant_alone_and_so_is_one_that_never_came() -> None:
    alone = Log(("a", "b"))
    alone.records = {
        "a-0": a_record("a-0", 0, 1.0, [1.5, 2.5, 3.8]),
        "a-1": a_record("a-1", 0, 2.0, [3.0, 4.0, 5.0]),
    }
    alone.end = 10.0
    dedicated = measure.judged(SCENARIO, "dedicated", 1, [alone])
    a = measure.judged(SCENARIO, "tenantry", 1, [a_log()], dedicated).samples["a"]
    assert a.due == 6
    # a-0 is 0.5, 0 and 0.2 s behind; of a-1 one token came, 6 s late, and two never did.
    assert {bound: a.late[bound] for bound in measure.LATE} == {0.1: 5, 0.25: 4, 1.0: 3}


def test_seeds_are_pooled_before_a_percentile_is_taken() -> None:
    parts = [an_outcome(a_log(), seed=seed) for seed in (1, 2)]
    row = measure.rows(parts)[0]
    assert row.seed is None
    assert row.ttft.n == 4
    assert row.arrived == 4
    assert row.measured_seconds == 20.0
    assert row.kv_blocks_max == 20
    assert measure.rows(parts[:1])[0].seed == 1


def test_a_pooled_sample_leaves_the_parts_as_they_were() -> None:
    parts = [an_outcome(a_log(), seed=seed) for seed in (1, 2)]
    before = [len(part.samples["a"].ttft.done) for part in parts]
    measure.pooled(parts)["a"].add(Sample())
    assert [len(part.samples["a"].ttft.done) for part in parts] == before


def test_the_series_of_a_log_has_a_row_for_each_step() -> None:
    found = series(a_log())
    assert list(found.times) == [2.0, 9.0]
    assert found.service.tolist() == [[102.0, 100.0], [6.0, 2.0]]
    assert series(Log(("a", "b"))).gpu.shape == (0, 2)


def test_the_table_compares_with_stock_and_with_the_tenant_alone() -> None:
    arms = [an_outcome(a_log(), arm) for arm in ("alone", "stock", "tenantry")]
    text = show.render([row for arm in arms for row in measure.rows([arm])])
    head, _, *lines = text.splitlines()
    assert "x alone" in head
    assert any(line.startswith("a ") and "tenantry" in line and "1.000" in line for line in lines)
    assert sum("TTFT" in line for line in lines) == 9


def test_notes_say_that_it_is_simulated_and_what_was_cut_off() -> None:
    rows = measure.rows([an_outcome(a_log(), "alone")])
    text = "\n".join(show.notes(rows, sentence="how"))
    assert "SIMULATED: how" in text
    assert "lower bounds" in text
    assert "engine of its own" in text
