"""`tenantry bench`: put a load on a real endpoint and report what each tenant got."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tenantry_bench import load as loads
from tenantry_bench.client import Client, Endpoint, Outcome
from tenantry_bench.drive import Run, drive
from tenantry_bench.errors import BadInputError, UnavailableError
from tenantry_bench.load import Load, Uniform
from tenantry_bench.plan import Plan
from tenantry_bench.report import page
from tenantry_bench.results import About, document, lateness, rows
from tenantry_bench.table import Shown, render

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_SECONDS = 120.0
DEFAULT_HEADER = "X-Tenant-ID"


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = argparse.ArgumentParser(
        prog="tenantry bench",
        description="Put a load of several tenants on an endpoint and report what each one got.",
        epilog=f"Loads that come with it: {', '.join(loads.shipped())}.",
        allow_abbrev=False,
    )
    where = made.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", type=_url, help="base URL of an OpenAI-compatible server")
    where.add_argument("--service", metavar="[NS/]NAME", help="a Service, by its cluster address")
    made.add_argument("--load", required=True, metavar="FILE|NAME", help="load file, trace or name")
    made.add_argument(
        "--seeds", type=_seeds, metavar="N,N", help="one run each (default: the load's)"
    )
    made.add_argument("--duration", type=_duration, metavar="S", help="end after so many seconds")
    made.add_argument("--arm", default="endpoint", help="what the results call this endpoint")
    made.add_argument("--model", help="model to ask for (default: the first that is served)")
    made.add_argument(
        "--header", type=_header, default=DEFAULT_HEADER, help="header that names the tenant"
    )
    made.add_argument(
        "--timeout", type=_duration, default=TIMEOUT_SECONDS, metavar="S", help="limit per request"
    )
    made.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    made.add_argument("--report", type=Path, metavar="FILE.html", help="write a report as well")
    return made


def _seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    whole = all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts)
    if not whole or len({int(part) for part in parts}) != len(parts):
        raise argparse.ArgumentTypeError(
            f"{text}: seeds are different whole numbers from 0 on, with commas between"
        )
    return [int(part) for part in parts]


def _url(text: str) -> str:
    if not _is_base(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the base URL of a server; write it like http://127.0.0.1:8000"
        )
    return text


def _is_base(text: str) -> bool:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return (
        whole and not parts.query and not parts.fragment and text.isprintable() and " " not in text
    )


def _header(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the name of a header; write it like {DEFAULT_HEADER}"
        )
    return text


def _duration(text: str) -> float:
    try:
        value = loads.seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} {error}") from error
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0 seconds")
    return value


def run(argv: Sequence[str]) -> int:
    """Run `tenantry bench` with its arguments and return the exit code."""
    options = parser().parse_args(argv)
    try:
        load = loads.find(options.load).with_duration(options.duration)
        _check_report(options.report)
        return _with_loop(Bench(load, options, shlex.join(["tenantry", "bench", *argv])))
    except BadInputError as error:
        say(str(error))
        return 2
    except UnavailableError as error:
        say(str(error))
        return 3
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
        return 130


def say(text: str) -> None:
    print(f"tenantry bench: {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def _check_report(path: Path | None) -> None:
    """A report that cannot be written is told before the minutes of load, not after."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise BadInputError(f"--report {path}: the folder {path.parent} does not exist; make it")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInputError(f"--report {path}: cannot be written; name a file in a folder of yours")


def _with_loop(bench: Bench) -> int:
    factory = None
    if util.find_spec("uvloop") is not None:
        import uvloop  # noqa: PLC0415 - only where it is there already; half the time per event

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(bench.main())


@dataclass(frozen=True)
class Bench:
    """One invocation: its load and its options."""

    load: Load
    options: argparse.Namespace
    command: str

    async def main(self) -> int:
        task = asyncio.current_task()
        if task is not None:
            with suppress(ValueError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        url = self.options.url or await self._service()
        async with Client(url, self.options.header, self.options.timeout) as client:
            endpoint = await client.endpoint(self.options.model)
            check_lengths(self.load, endpoint)
            runs = [await self._one(seed, client, endpoint) for seed in self._seeds()]
            self._show(runs, endpoint)
            code = verdict(runs)
            if code:
                await client.endpoint(self.options.model)  # says so where the server is gone
        return code

    async def _service(self) -> str:
        if util.find_spec("kubernetes") is None:
            raise UnavailableError(
                '--service needs the cluster client: pip install "tenantry[cli]"'
            )
        from tenantry_bench import cluster  # noqa: PLC0415 - a big client that --url does not need

        return await cluster.service_url(self.options.service)

    def _seeds(self) -> list[int]:
        return self.options.seeds or [self.load.seed]

    async def _one(self, seed: int, client: Client, endpoint: Endpoint) -> Run:
        say(f"{self.load.name}, arm {self.options.arm}, seed {seed}: {length(self.load)}")
        if any(b.t < a.t for a, b in zip(self.load.trace, self.load.trace[1:], strict=False)):
            say("the trace is not in the order of t; it is sent in that order")
        plan = Plan(self.load, seed, endpoint.model, f"{self.options.arm}/{self.options.header}")
        return await drive(plan, client, lambda run, now: say(progress(run, now)))

    def _show(self, runs: Sequence[Run], endpoint: Endpoint) -> None:
        arm, late = self.options.arm, lateness(runs)
        about = About(self.command, metadata.version("tenantry"), endpoint.version)
        shown = Shown(rows(arm, runs, pooled=True), {arm: late})
        if self.options.output == "json":
            body = document(about, rows(arm, runs, pooled=False), late)
            print(json.dumps(body, allow_nan=False))  # noqa: T201 - the result
        else:
            print(render(shown))  # noqa: T201 - the result
        if self.options.report is not None:
            text = page(shown, about, f"{self.load.name}: {arm}")
            self.options.report.write_text(text, encoding="utf-8")
            say(f"report in {self.options.report}")


def verdict(runs: Sequence[Run]) -> int:
    """Return the exit code, having said which measured requests failed and why.

    A refusal is an answer; a request that failed is a component that did not do its work.
    """
    begun = [r for run in runs for r in run.records if run.window[0] <= r.begun < run.window[1]]
    failed = [record for record in begun if record.outcome is Outcome.FAILED]
    if not failed:
        return 0
    say(
        f"{len(failed)} of {len(begun)} measured requests failed, the first one: "
        f"{failed[0].reason}; see what the server logged"
    )
    return 1 if any(record.outcome is Outcome.FINISHED for record in begun) else 3


def check_lengths(load: Load, endpoint: Endpoint) -> None:
    """Refuse a load that the model could only answer with errors."""
    limit = endpoint.max_model_len
    for tenant in load.tenants if limit is not None else ():
        both = (tenant.prompt, tenant.output)
        longest = sum(lengths.high for lengths in both if isinstance(lengths, Uniform))
        if limit is not None and longest > limit:
            raise BadInputError(
                f"tenants.{tenant.name}: prompt and output reach {longest} tokens, "
                f"{endpoint.model} takes {limit}; shorten them or serve a larger --max-model-len"
            )


def length(load: Load) -> str:
    """Return how long the run will take, as far as that is known."""
    if load.duration is not None:
        return f"{load.duration:g} s, the first {load.warmup:g} s not measured"
    if load.trace:
        return f"{len(load.trace)} requests over {max(line.t for line in load.trace):g} s"
    counted = [f"{t.requests} of {t.name}" for t in load.tenants if t.requests is not None]
    return f"until {' and '.join(counted)} are measured, after {load.warmup:g} s of warm-up"


def progress(run: Run, now: float) -> str:
    """Return one line of what each tenant has had so far."""
    parts = []
    for name in dict.fromkeys(record.tenant for record in run.records):
        mine = [record for record in run.records if record.tenant == name]
        ended = sum(record.ended is not None for record in mine)
        bad = sum(record.outcome in ("refused", "failed") for record in mine)
        parts.append(
            f"{name} {len(mine)} sent, {ended} ended" + (f", {bad} not served" if bad else "")
        )
    return f"{now:5.1f} s  {'; '.join(parts) or 'nothing sent yet'}"
