"""`kubectl exec` between a WebSocket and a program: streams, exit status, terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from e2e.agent.container import Launch, Process, StartError, Streams, execute

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
CHUNK = 32768


@dataclass(frozen=True)
class ExecRequest:
    """What to run in which container."""

    process: Process
    launch: Launch
    command: Sequence[str]
    stdin: bool
    terminal: bool


def outcome(code: int) -> dict[str, Any]:
    """The `Status` that tells kubectl how the program ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def refused(message: str) -> dict[str, Any]:
    """The `Status` for a program that did not start."""
    return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message}


async def run(socket: web.WebSocketResponse, request: ExecRequest) -> None:
    """Serve one exec session to its end."""
    try:
        code = await (_terminal if request.terminal else _piped)(socket, request)
        answer = outcome(code)
    except StartError as error:
        answer = refused(str(error))
    with contextlib.suppress(ConnectionError):
        await _send(socket, ERROR, json.dumps(answer).encode())
    await socket.close()


async def _piped(socket: web.WebSocketResponse, request: ExecRequest) -> int:
    input_read, input_write = os.pipe()
    output_read, output_write = os.pipe()
    error_read, error_write = os.pipe()
    child = Streams(input_read, output_write, error_write)
    mine = [output_read, error_read]
    if not request.stdin:
        os.close(input_write)
    try:
        process = await execute(
            request.process, request.launch, request.command, child, terminal=False
        )
    except StartError:
        for descriptor in (*mine, *([input_write] if request.stdin else [])):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (input_read, output_write, error_write):
            os.close(descriptor)
    outputs = [
        asyncio.ensure_future(_copy(output_read, socket, STDOUT)),
        asyncio.ensure_future(_copy(error_read, socket, STDERR)),
    ]
    inward = asyncio.ensure_future(_inward(socket, process, input_write if request.stdin else None))
    return await _finish(process, outputs, inward)


async def _terminal(socket: web.WebSocketResponse, request: ExecRequest) -> int:
    controller, terminal = os.openpty()
    child = Streams(terminal, terminal, terminal)
    try:
        process = await execute(
            request.process, request.launch, request.command, child, terminal=True
        )
    except StartError:
        os.close(controller)
        raise
    finally:
        os.close(terminal)
    writing = os.dup(controller) if request.stdin else None
    outputs = [asyncio.ensure_future(_copy(controller, socket, STDOUT))]
    inward = asyncio.ensure_future(_inward(socket, process, writing))
    return await _finish(process, outputs, inward)


async def _finish(
    process: Process, outputs: Sequence[asyncio.Future[None]], inward: asyncio.Future[None]
) -> int:
    try:
        code = await process.wait()
        # A child that the program left behind may hold the streams open: do not wait for it.
        await asyncio.wait(outputs, timeout=1.0)
        return code
    finally:
        process.send(signal.SIGKILL)
        for task in (*outputs, inward):
            task.cancel()
        await asyncio.gather(*outputs, inward, return_exceptions=True)


async def _copy(descriptor: int, socket: web.WebSocketResponse, channel: int) -> None:
    """From a descriptor to a channel until its end; closes the descriptor."""
    os.set_blocking(descriptor, False)
    try:
        while True:
            await _ready(descriptor, writing=False)
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            await _send(socket, channel, data)
    except ConnectionError:
        return
    finally:
        os.close(descriptor)


async def _inward(socket: web.WebSocketResponse, process: Process, descriptor: int | None) -> None:
    """From the WebSocket to the program; a lost connection ends the program."""
    try:
        async for message in socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == RESIZE and descriptor is not None:
                _resize(descriptor, data)
            elif channel == STDIN and descriptor is not None:
                await _write(descriptor, data)
            elif channel == CLOSE and data[:1] == bytes([STDIN]) and descriptor is not None:
                os.close(descriptor)
                descriptor = None
        process.send(signal.SIGKILL)
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _write(descriptor: int, data: bytes) -> None:
    os.set_blocking(descriptor, False)
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _ready(descriptor, writing=True)
        except OSError:
            return


def _resize(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(ValueError, KeyError, OSError):
        size = json.loads(data)
        packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, packed)


async def _ready(descriptor: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    (loop.add_writer if writing else loop.add_reader)(descriptor, wake)
    try:
        await done
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(descriptor)


async def _send(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    await socket.send_bytes(bytes([channel]) + data)
