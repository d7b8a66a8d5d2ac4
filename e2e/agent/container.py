"""Processes of containers, seen from the agent: start one, watch it, signal it, run another in it.

A program starts through `runner`, forked from the agent's main thread (the parent-death signal
follows the thread). Signals go through a pidfd, so a number that the kernel has given to somebody
else is never hit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECKOUT = Path(__file__).resolve().parents[2]
RUNNER = [sys.executable, "-ESs", "-m", "e2e.agent.runner"]


class StartError(RuntimeError):
    """The program could not be started; the text is for the container's status."""


@dataclass(frozen=True)
class Launch:
    """Everything that a container's first process is made of.

    network: path of the pod's network namespace. binds: (source, target, read-only).
    read_all: the program may read files that the agent's uid may not (root, running somebody
    else's private checkout).
    """

    base: str
    network: str
    hostname: str
    uid: int
    gid: int
    argv: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    binds: Sequence[tuple[str, str, bool]] = ()
    masks: Sequence[str] = ()
    needed: Sequence[str] = ()
    readonly: bool = False
    drop_all: bool = False
    no_new_privileges: bool = True
    read_all: bool = False

    def document(self) -> dict[str, Any]:
        """As the runner reads it."""
        return {
            name: dict(value) if name == "environment" else value
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Streams:
    """Descriptors of a program's standard streams."""

    stdin: int
    stdout: int
    stderr: int


class Process:
    """One running program: its runner, its first process and how it ended."""

    def __init__(self, runner: subprocess.Popen[bytes], pid: int) -> None:
        self.pid = pid
        self._runner = runner
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._watch = os.pidfd_open(runner.pid)
        try:
            self._target: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._target = None
        asyncio.get_running_loop().add_reader(self._watch, self._reap)

    @property
    def alive(self) -> bool:
        """Whether the program has not ended yet."""
        return not self._exited.done()

    async def wait(self) -> int:
        """The exit status, 128 + N after signal N."""
        return await asyncio.shield(self._exited)

    async def ended_within(self, seconds: float) -> bool:
        """Wait at most so long; whether the program has ended."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), max(seconds, 0))
        return not self.alive

    def send(self, number: signal.Signals) -> None:
        """Signal the program's first process; nothing if it has ended."""
        if self.alive and self._target is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._target, number)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watch)
        code = self._runner.wait()
        for descriptor in (self._watch, self._target):
            if descriptor is not None:
                os.close(descriptor)
        self._target = None
        self._exited.set_result(code if code >= 0 else 128 - code)


async def start(launch: Launch, streams: Streams) -> Process:
    """Start a container; raises StartError with the runner's own words."""
    return await _run(launch.document(), streams)


async def execute(
    inside: Process, launch: Launch, argv: Sequence[str], streams: Streams, *, terminal: bool
) -> Process:
    """Start another program in a running container, with that container's settings."""
    if not inside.alive:
        raise StartError("container not running")
    document = launch.document() | {"join": inside.pid, "argv": argv, "terminal": terminal}
    return await _run(document, streams)


async def _run(document: Mapping[str, Any], streams: Streams) -> Process:
    spec = os.memfd_create("spec", 0)
    os.write(spec, json.dumps(document).encode())
    os.lseek(spec, 0, os.SEEK_SET)
    read_end, write_end = os.pipe()
    try:
        runner = subprocess.Popen(  # noqa: ASYNC220 - must fork from this thread
            [*RUNNER, str(spec), str(write_end)],
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            pass_fds=(spec, write_end),
            cwd=CHECKOUT,
            env={"LANG": "C.UTF-8"},
        )
    finally:
        os.close(spec)
        os.close(write_end)
    try:
        report = await _report(read_end)
    except asyncio.CancelledError:
        runner.kill()
        runner.wait()
        raise
    return _started(runner, report)


def _started(runner: subprocess.Popen[bytes], report: str) -> Process:
    words = dict(line.split(" ", 1) for line in report.splitlines() if " " in line)
    if "error" in words or "pid" not in words:
        runner.kill()
        runner.wait()
        raise StartError(words.get("error", "the container's process ended before it ran"))
    return Process(runner, int(words["pid"]))


async def _report(descriptor: int) -> str:
    """What the runner says until the program has taken over (its end of the pipe is closed)."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    try:
        return (await reader.read()).decode(errors="replace")
    finally:
        transport.close()


async def output_of(
    inside: Process, launch: Launch, argv: Sequence[str], seconds: float
) -> tuple[int, str]:
    """Run `argv` in a container and collect what it prints; killed after `seconds`.

    Raises TimeoutError, and StartError where it cannot start.
    """
    read_end, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        process = await execute(
            inside, launch, argv, Streams(null, write_end, write_end), terminal=False
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
        os.close(null)
    try:
        text = asyncio.ensure_future(_report(read_end))
        if not await process.ended_within(seconds):
            raise TimeoutError(f"command timed out after {seconds:g}s")
        return await process.wait(), (await text)[:4096]
    finally:
        process.send(signal.SIGKILL)
