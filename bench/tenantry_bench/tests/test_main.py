"""The command: what it accepts, what it prints where, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tenantry_bench.client import Endpoint
from tenantry_bench.errors import BadInputError
from tenantry_bench.load import find
from tenantry_bench.main import check_lengths, length, run
from tenantry_bench.tests.stub import answer, models, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tenantry_bench.tests.stub import Handler

LOAD = """
warmup: 100ms
tenants:
  - {name: a, process: constant, rate: 50, requests: 5, prompt: 4, output: 3}
"""


@contextmanager
def stub(handler: Handler = answer, listing: Handler = models) -> Iterator[str]:
    """Serve the stub from a thread of its own: `run` has an event loop of its own too."""
    started, url = threading.Event(), [""]
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def main() -> None:
        async with serving(handler, listing) as found:
            url[0] = found
            started.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    assert started.wait(10)
    try:
        yield url[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


@pytest.fixture
def load_file(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(LOAD)
    return str(path)


def test_the_table_goes_to_standard_output_and_progress_to_standard_error(
    load_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub() as url:
        assert run(["--url", url, "--load", load_file]) == 0
    out, err = capsys.readouterr()
    assert "TTFT" in out
    assert "TTFT" not in err
    assert "mine" in err


def test_json_is_one_document_with_a_row_for_each_seed_and_tenant(
    load_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub() as url:
        assert run(["--url", url, "--load", load_file, "--seeds", "3,4", "-o", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [(row["seed"], row["tenant"]) for row in body["rows"]] == [
        (3, "a"),
        (3, "*"),
        (4, "a"),
        (4, "*"),
    ]
    assert all(row["finished"] == 5 for row in body["rows"])
    assert body["rows"][0]["output_tokens"] == 15 or body["window"][0] == 0.1
    assert body["engine"]["vllm"] == "0.0-stub"


def test_a_report_is_written_where_it_was_asked_for(load_file: str, tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    with stub() as url:
        assert run(["--url", url, "--load", load_file, "--report", str(report)]) == 0
    assert "base64" in report.read_text()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--load", "no-such"], "no-such"),
        (["--load", "quiet-alone", "--duration", "2"], "longer than warmup"),
        (["--load", "quiet-alone", "--report", "/nowhere/r.html"], "/nowhere"),
        (["--load", "quiet-alone", "--report", "/"], "--report /"),
    ],
)
def test_bad_input_ends_with_2_and_one_sentence(
    more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", "http://127.0.0.1:9", *more]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--url", "http://x"],
        ["--url", "http://x", "--service", "y", "--load", "two-equal"],
        ["--url", "http://x", "--load", "two-equal", "--seeds", "a"],
        ["--url", "http://x", "--load", "two-equal", "--seeds", "1,1"],
        ["--url", "http://x", "--load", "two-equal", "--seeds", ","],
        ["--url", "http://x", "--load", "two-equal", "--header", ""],
        ["--url", "http://x", "--load", "two-equal", "--header", "X Y"],
        ["--url", "", "--load", "two-equal"],
        ["--url", "x", "--load", "two-equal"],
        ["--url", "http://", "--load", "two-equal"],
        ["--url", "ftp://x", "--load", "two-equal"],
        ["--url", "http://[", "--load", "two-equal"],
        ["--url", "http://x:99999", "--load", "two-equal"],
        ["--url", "http://x:y", "--load", "two-equal"],
        ["--url", "http://x?y=1", "--load", "two-equal"],
        ["--url", "http://x y", "--load", "two-equal"],
        ["--url", "http://x", "--load", "two-equal", "--duration", "soon"],
        ["--url", "http://x", "--load", "two-equal", "--duration", "0"],
        ["--url", "http://x", "--load", "two-equal", "-o", "xml"],
    ],
)
def test_wrong_use_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(argv)
    assert caught.value.code == 2
    assert "invalid _" not in capsys.readouterr().err


def test_a_server_that_is_not_there_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", "http://127.0.0.1:9", "--load", "quiet-alone"]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("heeding_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_130(number: signal.Signals) -> None:
    code = "import sys; from tenantry_bench.main import run; sys.exit(run(sys.argv[1:]))"
    with stub() as url:
        argv = [sys.executable, "-c", code, "--url", url, "--load", "two-equal"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
            assert process.stderr is not None
            assert "two-equal" in process.stderr.readline()
            process.send_signal(number)
            assert process.wait(20) == 130
            assert "Traceback" not in process.stderr.read()


async def no(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="out of paper")


def every_other() -> Handler:
    served: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        served.append(request)
        return await (no(request) if len(served) % 2 else answer(request))

    return handler


@pytest.mark.parametrize(
    ("handler", "code"), [(no, 3), (every_other(), 1)], ids=["all of them", "every other one"]
)
def test_requests_that_failed_are_shown_and_told_in_the_exit_code(
    handler: Handler, code: int, load_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub(handler) as url:
        assert run(["--url", url, "--load", load_file, "-o", "json"]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"][0]["failed"] >= 2
    assert "measured requests failed" in err
    assert "500: out of paper" in err


@pytest.mark.parametrize(
    "body",
    [[1], "x", None, {"data": 5}, {"data": [None]}, {"data": ["m"]}, {"data": [{}]}, {"data": {}}],
    ids=str,
)
def test_a_server_that_lists_no_models_ends_with_3(
    body: object, load_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def listing(_: web.Request) -> web.Response:
        return web.json_response(body)

    with stub(answer, listing) as url:
        assert run(["--url", url, "--load", load_file]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_load_longer_than_the_model_takes_is_refused_before_it_is_sent() -> None:
    with pytest.raises(BadInputError, match=r"tenants\.noisy: prompt and output reach 832"):
        check_lengths(find("noisy-neighbour"), Endpoint("m", 512, None))
    check_lengths(find("noisy-neighbour"), Endpoint("m", 832, None))


@pytest.mark.parametrize(
    ("name", "says"), [("quiet-alone", "150 of quiet"), ("two-equal", "70 s")], ids=str
)
def test_how_long_it_takes_is_said_beforehand(name: str, says: str) -> None:
    assert says in length(find(name))
