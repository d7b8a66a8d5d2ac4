"""The kubelet's HTTPS door: container logs, and `kubectl exec` over a WebSocket.

Only the API server's client certificate opens it. Exec speaks the channel protocol in its
versions 4 and 5: the first byte of every message names the stream.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from typing import TYPE_CHECKING

from aiohttp import web

from e2e.agent.exec_stream import PROTOCOLS, ExecRequest, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from e2e.agent.config import AgentConfig
    from e2e.agent.pods import PodWorker
    from e2e.agent.supervise import ContainerLoop

logger = logging.getLogger(__name__)

FOLLOW_SECONDS = 0.1
CHUNK = 65536


class KubeletServer:
    """One server for all nodes; `find` gives the worker of a (namespace, pod)."""

    def __init__(self, config: AgentConfig, find: Callable[[str, str], PodWorker | None]) -> None:
        self._config = config
        self._find = find

    async def start(self) -> None:
        """Listen; the tasks belong to the running loop."""
        application = web.Application()
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for tail in ("{container}", "{uid}/{container}"):
            application.router.add_route("*", "/exec/{namespace}/{pod}/" + tail, self._exec)
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(self._config.client_ca)
        )
        context.load_cert_chain(str(self._config.kubelet_cert), str(self._config.kubelet_key))
        context.verify_mode = ssl.CERT_REQUIRED
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(
            runner, self._config.gateway, self._config.kubelet_port, ssl_context=context
        )
        await site.start()

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    def _loop(self, request: web.Request) -> ContainerLoop:
        info = request.match_info
        worker = self._find(info["namespace"], info["pod"])
        loop = worker.find(info["container"]) if worker is not None else None
        if loop is None:
            raise web.HTTPNotFound(
                text=f"container {info['container']} of pod {info['pod']} is not here"
            )
        return loop

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        loop, query = self._loop(request), request.query
        attempt = loop.state.restarts
        waits_for_start = loop.process is not None and not loop.log(attempt).exists()
        if query.get("previous") == "true" or waits_for_start:
            attempt -= 1
        path = loop.log(attempt)
        if not path.exists():
            what = "previous terminated " if query.get("previous") == "true" else ""
            raise web.HTTPBadRequest(
                text=f"{what}container {loop.name} in pod "
                f"{request.match_info['pod']} not found or not started yet"
            )
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        follow = query.get("follow") == "true" and query.get("previous") != "true"
        ended = _ends(loop, attempt) if follow else (lambda: True)
        async for chunk in _content(path, int(query.get("tailLines", -1)), ended):
            await answer.write(chunk)
        await answer.write_eof()
        return answer

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        loop, query = self._loop(request), request.query
        if loop.process is None or loop.launch is None or not loop.process.alive:
            raise web.HTTPBadRequest(text=f"container {loop.name} is not running")
        socket = web.WebSocketResponse(protocols=PROTOCOLS)
        if not socket.can_prepare(request).ok:
            raise web.HTTPBadRequest(text="the node agent offers exec over a WebSocket only")
        await socket.prepare(request)
        wanted = ExecRequest(
            loop.process,
            loop.launch,
            query.getall("command", []),
            stdin=query.get("input") in {"1", "true"},
            terminal=query.get("tty") in {"1", "true"},
        )
        await run(socket, wanted)
        return socket


def _ends(loop: ContainerLoop, attempt: int) -> Callable[[], bool]:
    def ended() -> bool:
        gone = loop.process is None or not loop.process.alive
        return loop.state.restarts != attempt or (gone and not loop.state.running)

    return ended


async def _content(path: Path, tail: int, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """A log from its last `tail` lines (all for -1) to its end, which comes when `ended` says."""
    with path.open("rb") as log:
        for chunk in _head(log, tail):
            yield chunk
        while True:
            last = ended()
            while chunk := log.read(CHUNK):
                yield chunk
            if last:
                return
            await asyncio.sleep(FOLLOW_SECONDS)


def _head(log: Iterator[bytes], tail: int) -> Iterator[bytes]:
    if tail >= 0:
        yield from deque(log, maxlen=tail)
