"""What a row counts, and that the document is the one that others read."""

import json
from collections.abc import Sequence

import pytest

from tenantry_bench.client import Outcome, Record
from tenantry_bench.drive import Run
from tenantry_bench.load import find
from tenantry_bench.plan import Plan, Request
from tenantry_bench.results import (
    About,
    Gate,
    Row,
    document,
    from_document,
    lateness,
    rows,
    tokens_in,
)
from tenantry_core.quantiles import summarize

ABOUT = About("tenantry bench ...", "0.1.0", "0.32.0")


def record(
    begun: float,
    times: Sequence[float] = (),
    outcome: Outcome = Outcome.FINISHED,
    tenant: str = "quiet",
    ended: float | None = None,
) -> Record:
    made = Record(Request(tenant, begun, 30, 16, b""), begun, begun)
    made.stream.token_times = list(times)
    if outcome is Outcome.FINISHED:
        made.stream.output_tokens = len(times)
        made.stream.complete = True
    made.end(ended if ended is not None else max([begun, *times]), outcome)
    return made


def a_run(*records: Record, seed: int = 1, end: float = 20.0) -> Run:
    return Run(Plan(find("quiet-alone"), seed, "m"), list(records), [0.001, 0.002], end)


def only(run: Run, tenant: str = "quiet") -> Row:
    return next(row for row in rows("stock", [run], pooled=False) if row.tenant == tenant)


def test_latencies_are_from_where_the_clock_began() -> None:
    row = only(a_run(record(10.0, [10.5, 10.75], ended=11.0)))
    assert (row.ttft.p50, row.itl.p50, row.e2e.p50) == (0.5, 0.25, 1.0)
    assert row.tpot.p50 == 0.25


def test_what_began_in_the_warm_up_is_not_measured_but_its_later_tokens_are_served() -> None:
    row = only(a_run(record(6.0, [6.5, 7.5, 8.5])))
    assert (row.arrived, row.ttft.n) == (0, 0)
    assert (row.prompt_tokens, row.output_tokens) == (0, 2)


def test_an_unfinished_request_counts_with_its_waits_so_far() -> None:
    silent = record(10.0, [], Outcome.UNFINISHED, ended=15.0)
    begun = record(10.0, [10.5], Outcome.UNFINISHED, ended=13.0)
    row = only(a_run(silent, begun))
    assert (row.unfinished, row.finished) == (2, 0)
    assert (row.ttft.max, row.ttft.censored) == (5.0, 1)
    assert (row.itl.max, row.itl.censored) == (2.5, 1)
    assert (row.e2e.max, row.e2e.censored) == (5.0, 2)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_what_was_refused_or_failed_is_counted_and_has_no_latency(outcome: Outcome) -> None:
    row = only(a_run(record(10.0, [], outcome)))
    assert (row.arrived, row.refused + row.failed, row.e2e.n) == (1, 1, 0)


def test_the_parts_of_arrived_add_up() -> None:
    outcomes = [*Outcome, Outcome.FINISHED]
    row = only(a_run(*(record(9.0, [9.5], outcome, ended=9.6) for outcome in outcomes)))
    assert row.arrived == row.finished + row.refused + row.failed + row.unfinished == 5


def test_tokens_of_an_event_that_carried_several_are_spread_evenly() -> None:
    one = record(8.0, [8.0, 9.0, 10.0, 11.0])
    one.stream.output_tokens = 8
    assert tokens_in(one, (9.5, 20.0)) == (0, 4)
    assert tokens_in(one, (0.0, 20.0)) == (30, 8)


def test_service_is_prompt_tokens_done_for_the_first_time_and_twice_the_output() -> None:
    one = record(8.0, [8.0, 9.0])
    assert only(a_run(one)).service == 30 + 4
    one.stream.cached_tokens = 10
    assert (only(a_run(one)).cached_tokens, only(a_run(one)).service) == (10, 20 + 4)


def test_seeds_are_pooled_before_a_percentile_is_taken_and_rows_stay_per_seed() -> None:
    runs = [a_run(record(8.0, [8.0 + wait]), seed=seed) for seed, wait in ((1, 1.0), (2, 3.0))]
    per_seed = [row for row in rows("stock", runs, pooled=False) if row.tenant == "quiet"]
    (pooled,) = [row for row in rows("stock", runs, pooled=True) if row.tenant == "quiet"]
    assert [(row.seed, row.ttft.max) for row in per_seed] == [(1, 1.0), (2, 3.0)]
    assert (pooled.seed, pooled.ttft.n, pooled.ttft.mean) == (None, 2, 2.0)
    assert pooled.measured_seconds == 26.0


def test_the_last_row_of_a_seed_is_everybody_together() -> None:
    run = a_run(record(8.0, [9.0]), record(8.0, [9.0], tenant="guest"))
    found = rows("stock", [run], pooled=False)
    assert [row.tenant for row in found] == ["quiet", "guest", "*"]
    assert found[-1].arrived == 2
    assert found[-1].prompt_tokens == 60


def test_tokens_per_second_are_those_of_the_window() -> None:
    assert only(a_run(record(8.0, [8.5, 9.0]), end=15.0)).tokens_per_second == 32 / 8


def test_the_document_has_the_fields_of_the_contract_and_no_nan() -> None:
    found = rows("stock", [a_run(record(8.0, [9.0]))], pooled=False)
    gate = Gate("g", "text", "<=", 1.0, None, "ratio", reached=False)
    body = json.loads(json.dumps(document(ABOUT, found, summarize([0.1]), [gate]), allow_nan=False))
    assert body["schema"] == "tenantry.dev/results/v1"
    assert body["simulated"] is False
    assert body["window"] == [7.0, 20.0]
    assert body["engine"]["vllm"] == "0.32.0"
    assert {"scenario", "arm", "seed", "tenant", "ttft", "itl", "e2e", "queue"} <= set(
        body["rows"][0]
    )
    assert set(body["rows"][0]["ttft"]) >= {"n", "mean", "p50", "p90", "p95", "p99", "p999", "max"}
    assert body["rows"][0]["kv_blocks_mean"] is None
    assert body["gates"][0]["reached"] is False
    assert body["dispatch_lateness"]["max"] == 0.1


def test_a_document_is_read_back_as_it_was() -> None:
    run = a_run(record(8.0, [9.0, 9.5]), record(9.0, [], Outcome.UNFINISHED))
    found, late = rows("stock", [run], pooled=False), lateness([run])
    body = json.loads(json.dumps(document(ABOUT, found, late)))
    assert from_document(body) == (found, late)
