"""`tenantry-extender`: starts everything, stops on SIGTERM.

Exit codes: 0 stopped, 2 wrong use, 3 the environment lacks something, 130 interrupted.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tenantry_api import names
from tenantry_extender import server, watch
from tenantry_extender.books import Books, Kind
from tenantry_extender.cluster import Cluster, NoCluster
from tenantry_extender.metrics import ExtenderMetrics
from tenantry_extender.poke import Poker
from tenantry_extender.snapshot import Snapshot

ENV_LOG_LEVEL = "TENANTRY_LOG_LEVEL"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

log = logging.getLogger("tenantry_extender")


class CannotStart(Exception):
    """One sentence: what is missing and the way out."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tenantry-extender",
        description="kube-scheduler extender: a weighted fair share of the GPUs for every policy",
    )
    add = parser.add_argument
    add("--verbs-host", default="127.0.0.1", help="address of the verbs (default %(default)s)")
    add("--verbs-port", type=_port, default=8899, help="port of the verbs (default %(default)s)")
    add("--host", default="0.0.0.0", help="address of health and metrics (default %(default)s)")  # noqa: S104
    add("--port", type=_port, default=8080, help="port of health and metrics (default %(default)s)")
    add("--kubeconfig", type=Path, help="default: the ServiceAccount of the pod it runs in")
    add(
        "--scheduler-name", action="append", dest="schedulers", metavar="NAME",
        help=f"a profile that asks this extender; repeatable (default {names.SCHEDULER_NAME})",
    )  # fmt: skip
    add(
        "--hold-seconds", type=_seconds, default=30.0,
        help="how long slices stay set aside for a bind that is not seen (default %(default)s)",
    )  # fmt: skip
    add(
        "--log-level", type=_level, default=os.environ.get(ENV_LOG_LEVEL, "INFO"),
        help=f"debug, info, warning or error (default: ${ENV_LOG_LEVEL} or INFO)",
    )  # fmt: skip
    return parser


async def run(options: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        asyncio.get_running_loop().add_signal_handler(number, _finish, stop, code)
    schedulers = frozenset(options.schedulers or [names.SCHEDULER_NAME])
    books = Books(Snapshot(schedulers), options.hold_seconds)
    metrics = ExtenderMetrics(books, time.monotonic)
    cluster = await _connect(options.kubeconfig)
    poker = Poker(books, cluster, time.monotonic, _stamp, metrics.poked)
    books.changed = poker.wake
    verbs = server.Verbs(books, cluster, metrics, time.monotonic)
    runners: list[web.AppRunner] = []
    tasks: list[asyncio.Task[None]] = []
    try:
        seen = server.observers(books, metrics, time.monotonic)
        runners.append(await _listen(seen, options.host, options.port))
        runners.append(await _listen(verbs.app(), options.verbs_host, options.verbs_port))
        loops = [watch.follow(kind, cluster, books, time.monotonic) for kind in Kind]
        tasks.extend(asyncio.create_task(loop) for loop in [*loops, poker.run()])
        log.info("verbs on %s:%d", options.verbs_host, options.verbs_port)
        return await _until(stop, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for runner in reversed(runners):
            await runner.cleanup()
        await cluster.close()


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        return asyncio.run(run(options))
    except CannotStart as error:
        print(f"tenantry-extender: {error}", file=sys.stderr)  # noqa: T201
        return 3


async def _until(stop: "asyncio.Future[int]", tasks: "list[asyncio.Task[None]]") -> int:
    """Wait for a signal. No task ends by itself: one that does has met a bug, and a process
    without it would look well and decide on old books."""
    ends: list[asyncio.Future[Any]] = [stop, *tasks]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        return stop.result()
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            log.error("a part of the extender has failed", exc_info=task.exception())
    return 3


async def _connect(kubeconfig: Path | None) -> Cluster:
    try:
        return await Cluster.connect(kubeconfig)
    except NoCluster as error:
        way = "give --kubeconfig FILE, or run it in a pod with a ServiceAccount"
        trouble = str(error).rstrip(".")
        raise CannotStart(f"no API server to talk to: {trouble}; {way}") from error


async def _listen(app: web.Application, host: str, port: int) -> web.AppRunner:
    try:
        return await server.listen(app, host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        trouble = f"cannot listen on {host}:{port}: {reason}; choose another port"
        raise CannotStart(trouble) from error


def _finish(stop: "asyncio.Future[int]", code: int) -> None:
    if not stop.done():
        stop.set_result(code)


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; use 1 to 65535")
    return int(text)


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no log level; use {', '.join(LEVELS)}")
    return text.upper()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        way = "use seconds, more than 0, under 3600"
        raise argparse.ArgumentTypeError(f"{text!r} is no time; {way}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
