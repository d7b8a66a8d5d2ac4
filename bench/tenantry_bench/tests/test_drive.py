"""A run against a stub server: who is timed from when, what counts, and when it is over."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tenantry_bench.client import Client, Outcome, Record, retry_after
from tenantry_bench.drive import Run, drive
from tenantry_bench.errors import UnavailableError
from tenantry_bench.load import find, parse
from tenantry_bench.plan import Plan
from tenantry_bench.results import Row, lateness, rows
from tenantry_bench.tests.stub import DONE, answer, event, serving, stream, usage

if TYPE_CHECKING:
    from tenantry_bench.tests.stub import Handler


async def run_load(text: str, handler: Handler, limit: float = 10.0) -> Run:
    load = parse(text, "x.yaml", Path(), "x")
    async with serving(handler) as url, Client(url, "X-Tenant-ID", limit) as client:
        return await drive(Plan(load, 1, "stub"), client, None)


def one_row(run: Run, tenant: str = "a") -> Row:
    return next(row for row in rows("stub", [run], pooled=False) if row.tenant == tenant)


def open_loop(rate: float, requests: int, output: int = 1) -> str:
    return (
        f"tenants: [{{name: a, process: constant, rate: {rate}, requests: {requests}, "
        f"prompt: 4, output: {output}}}]"
    )


def freezing(start: float, length: float) -> Handler:
    """Return a server that answers in 5 ms and stands still once, timed from its first call."""
    born: list[float] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        born[:] = born or [time.monotonic()]
        at = time.monotonic() - born[0]
        if start <= at < start + length:
            await asyncio.sleep(start + length - at)
        await asyncio.sleep(0.005)
        return await answer(request)

    return handler


async def test_an_open_loop_shows_a_stall_to_everybody_who_was_due_in_it() -> None:
    run = await run_load(open_loop(100, 200), freezing(1.0, 0.5))
    row = one_row(run)
    waits = sorted(0.505 - 0.01 * k for k in range(50))
    assert (row.loop, row.finished) == ("open", 200)
    assert row.e2e.p99 is not None
    assert row.e2e.p95 is not None
    assert waits[-3] - 0.03 <= row.e2e.p99 <= waits[-3] + 0.25
    assert waits[-11] - 0.03 <= row.e2e.p95 <= waits[-11] + 0.25
    assert row.e2e.p50 is not None
    assert row.e2e.p50 < 0.25


async def test_a_closed_loop_hides_the_stall_and_is_labelled_so() -> None:
    text = "tenants: [{name: a, connections: 1, requests: 110, prompt: 4, output: 1}]"
    row = one_row(await run_load(text, freezing(0.3, 0.5)))
    assert (row.loop, row.finished) == ("closed", 110)
    assert row.e2e.p99 is not None
    assert row.e2e.max is not None
    assert row.e2e.p99 < row.e2e.max
    assert row.e2e.max > 0.4


async def test_nothing_is_sent_before_its_planned_time() -> None:
    run = await run_load(open_loop(200, 100), answer)
    assert all(record.sent >= (record.request.planned or 0.0) for record in run.records)


async def test_a_stalled_server_does_not_stop_the_sending() -> None:
    run = await run_load(open_loop(100, 50), freezing(0.0, 1.0))
    assert max(record.sent for record in run.records) < 0.9


@pytest.mark.parametrize("close", [False, True], ids=["chunked", "connection closed"])
async def test_first_token_and_gaps_are_those_of_the_server(close: bool) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if close:
            response.headers["Connection"] = "close"
            response.force_close()
        await response.prepare(request)
        start = time.monotonic()
        for number in range(5):
            await asyncio.sleep(max(0.0, start + 0.05 + 0.03 * number - time.monotonic()))
            await response.write(event("a"))
        await response.write(usage(4, 5) + DONE)
        return response

    row = one_row(await run_load(open_loop(10, 8, output=5), handler))
    assert row.itl.n == 32
    assert row.ttft.p50 == pytest.approx(0.05, abs=0.02)
    assert row.itl.p50 == pytest.approx(0.03, abs=0.01)
    assert row.output_tokens == 40


async def test_every_measured_request_has_one_outcome() -> None:
    answers = iter([200, 429, 403, 503, 500, 400, 200, 429])

    async def handler(request: web.Request) -> web.StreamResponse:
        status = next(answers)
        if status == 200:
            return await answer(request)
        return web.Response(status=status, text="no", headers={"Retry-After": "0"})

    row = one_row(await run_load(open_loop(50, 8), handler))
    assert (row.arrived, row.finished, row.refused, row.failed, row.unfinished) == (8, 2, 4, 2, 0)
    assert row.e2e.n == 2


async def broken_off(request: web.Request) -> web.StreamResponse:
    response = await stream(request)
    await response.write(event("a"))
    return response


async def error_inside(request: web.Request) -> web.StreamResponse:
    response = await stream(request)
    await response.write(event("a") + b'data: {"error": {"message": "engine died"}}\n\n' + DONE)
    return response


async def hung_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "reason"),
    [(broken_off, "broke off"), (error_inside, "engine died"), (hung_up, "isconnect")],
)
async def test_an_answer_that_is_not_whole_has_failed_though_the_status_was_200(
    handler: Handler, reason: str
) -> None:
    run = await run_load(open_loop(50, 1), handler)
    assert run.records[0].outcome is Outcome.FAILED
    assert reason in run.records[0].reason


async def test_a_request_over_its_time_limit_is_unfinished_and_counts_with_its_wait() -> None:
    run = await run_load(open_loop(50, 1), freezing(0.0, 5.0), limit=0.3)
    row = one_row(run)
    assert (row.unfinished, row.ttft.n, row.ttft.censored) == (1, 1, 1)
    assert row.ttft.max == pytest.approx(0.3, abs=0.2)


async def test_the_others_are_cut_off_when_those_with_requests_have_theirs() -> None:
    text = """
warmup: 100ms
tenants:
  - {name: quiet, process: constant, rate: 20, requests: 5, prompt: 4, output: 1}
  - {name: noisy, connections: 3, start: 100ms, prompt: 4, output: 1}
"""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["X-Tenant-ID"] == "noisy":
            await asyncio.sleep(30)
        return await answer(request)

    began = time.monotonic()
    run = await run_load(text, handler)
    assert time.monotonic() - began < 5
    assert (one_row(run, "quiet").finished, one_row(run, "noisy").unfinished) == (5, 3)
    assert one_row(run, "*").arrived == 8


async def test_the_warm_up_is_sent_and_not_measured() -> None:
    text = "warmup: 300ms\n" + open_loop(20, 4)
    run = await run_load(text, answer)
    assert len(run.records) > 4
    assert one_row(run).arrived == 4
    assert run.window[0] == 0.3


async def test_a_duration_ends_a_load_that_has_no_other_end() -> None:
    text = "duration: 400ms\ntenants: [{name: a, connections: 2, prompt: 4, output: 1}]"
    run = await run_load(text, answer)
    assert run.end == pytest.approx(0.4, abs=0.1)
    assert one_row(run).finished > 2


async def test_a_closed_loop_keeps_its_number_of_connections_busy() -> None:
    busy, peak = [0], [0]

    async def handler(request: web.Request) -> web.StreamResponse:
        busy[0] += 1
        peak[0] = max(peak[0], busy[0])
        await asyncio.sleep(0.01)
        busy[0] -= 1
        return await answer(request)

    text = "tenants: [{name: a, connections: 120, requests: 300, prompt: 4, output: 1}]"
    row = one_row(await run_load(text, handler))
    assert (row.finished, peak[0]) == (300, 120)


async def test_a_refused_connection_waits_before_it_comes_again() -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429)

    text = "duration: 600ms\ntenants: [{name: a, connections: 1, prompt: 4, output: 1}]"
    assert one_row(await run_load(text, handler)).refused <= 3


async def test_the_tenant_travels_in_the_header_and_a_trace_may_leave_it_out(
    tmp_path: Path,
) -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("X-Tenant-ID"))
        return await answer(request)

    lines = ['{"tenant": "b", "t": 0, "prompt": 3, "out": 1}', '{"t": 0.05, "prompt": 3, "out": 1}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    load = find(str(tmp_path / "t.jsonl"))
    async with serving(handler) as url, Client(url, "X-Tenant-ID", 5) as client:
        run = await drive(Plan(load, 1, "stub"), client, None)
    assert seen == ["b", None]
    assert {record.tenant for record in run.records} == {"b", "default"}


async def test_a_client_of_a_trace_that_goes_away_leaves_its_request_unfinished(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.jsonl").write_text('{"t": 0, "prompt": 3, "out": 1, "cancel_at": 0.2}')
    load = find(str(tmp_path / "t.jsonl"))
    async with serving(freezing(0.0, 5.0)) as url, Client(url, "X-Tenant-ID", 9) as client:
        run = await drive(Plan(load, 1, "stub"), client, None)
    assert [record.outcome for record in run.records] == [Outcome.UNFINISHED]
    assert run.end < 2


async def test_the_generator_measures_how_late_it_is_itself() -> None:
    async def blocking(request: web.Request) -> web.StreamResponse:
        time.sleep(0.2)  # noqa: ASYNC251 - the same loop runs the generator: it stalls both
        return await answer(request)

    late = lateness([await run_load(open_loop(20, 3), blocking)])
    assert late.max is not None
    assert late.max > 0.1


async def test_cancelling_a_run_leaves_no_task() -> None:
    text = "duration: 30s\ntenants: [{name: a, connections: 4, prompt: 4, output: 1}]"
    before = asyncio.all_tasks()
    task = asyncio.create_task(run_load(text, answer))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before


async def test_the_endpoint_says_its_model_limit_and_version() -> None:
    async with serving(answer) as url, Client(url, "X-Tenant-ID", 5) as client:
        found = await client.endpoint(None)
        assert (found.model, found.max_model_len, found.version) == ("stub", 4096, "0.0-stub")
        with pytest.raises(UnavailableError, match="not other"):
            await client.endpoint("other")


async def test_a_server_that_is_not_there_is_named() -> None:
    async with Client("http://127.0.0.1:9", "X-Tenant-ID", 5) as client:
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9"):
            await client.endpoint(None)


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, None), ("2", 2.0), ("²", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_retry_after_is_read_in_seconds(header: str | None, expected: float | None) -> None:
    assert retry_after(header) == expected


def test_a_record_without_an_end_is_unfinished() -> None:
    load = find("quiet-alone")
    request = next(Plan(load, 1, "m").open_loop(load.tenants[0]))
    assert Record(request, 0.0, 0.0).outcome is Outcome.UNFINISHED
