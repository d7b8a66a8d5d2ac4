"""Both sides of a door in a test: applications that behave as vLLM's, and a client."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from tenantry_engine.config import EngineConfig
from tenantry_engine.door import App, Door, Scope
from tenantry_engine.door_metrics import DoorMetrics
from tenantry_engine.exchange import Message, Receive, Send
from tenantry_engine.reload import PolicyWatch
from tenantry_engine.tagging import CALLER

JSON = [(b"content-type", b"application/json")]
SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
TOKEN = b'data: {"choices":[{"index":0,"text":" aab"}]}\n\n'


class Clock:
    """A clock that stands still unless somebody waits on it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A door with metrics of its own before an application."""

    def __init__(self, app: App, config: EngineConfig, fresh: EngineConfig | None = None) -> None:
        self.registry = CollectorRegistry()
        self.clock = Clock()
        self.said: list[str] = []
        self.next = fresh or config
        watch = PolicyWatch(config, lambda: self.next, self._stamp, self.said.append)
        self.door = Door(app, watch, DoorMetrics(config, self.registry), self.clock)

    def _stamp(self) -> tuple[int, int, int]:
        return (id(self.next), 0, 0)

    def figure(self, name: str, **labels: str) -> float | None:
        """The value of a series of policy `chat`; None where there is no such series."""
        return self.registry.get_sample_value(name, {"policy": "chat", **labels})

    def ends(self, tenant: str) -> dict[str, float]:
        """How the requests of a tenant ended, without the zeros."""
        found = {
            end: self.figure("tenantry_requests_total", tenant=tenant, outcome=end)
            for end in ("ok", "aborted", "failed", "refused")
        }
        return {end: count for end, count in found.items() if count}

    async def call(self, scope: Scope, gone_after: int | None = None) -> list[Message]:
        """Send a request; the answer. The client hangs up after so many messages."""
        answer: list[Message] = []
        hung_up = asyncio.Event()
        asked = [{"type": "http.request", "body": b"{}", "more_body": False}]

        async def receive() -> Message:
            if asked:
                return asked.pop()
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.append(message)
            if gone_after is not None and len(answer) >= gone_after:
                hung_up.set()
                await asyncio.sleep(0)

        await self.door(scope, receive, send)
        return answer


def request(
    path: str = "/v1/completions",
    tenant: str | None = "gold",
    peer: str = "10.0.0.1",
    method: str = "POST",
    **headers: str,
) -> Scope:
    """A request as ASGI describes it."""
    given = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    if tenant is not None:
        given.append((b"x-tenant-id", tenant.encode()))
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": given,
        "client": (peer, 4711),
    }


def answering(
    *bodies: bytes,
    status: int = 200,
    headers: Sequence[tuple[bytes, bytes]] = JSON,
    before: Callable[[int], None] = lambda _: None,
) -> App:
    """An application that sends these bodies; `before` is called with the index of each."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for index, body in enumerate(bodies):
            before(index)
            last = index == len(bodies) - 1
            await send({"type": "http.response.body", "body": body, "more_body": not last})

    return app


def until_disconnect(bodies: Sequence[bytes]) -> App:
    """Streams as Starlette does: beside the stream somebody listens for the client to go."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": SSE})
        listening = asyncio.ensure_future(receive())
        for body in bodies:
            await asyncio.sleep(0)
            if listening.done():
                return
            await send({"type": "http.response.body", "body": body, "more_body": True})
        listening.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def noting(seen: list[Any]) -> App:
    """Answers, and notes who the caller is and which headers arrived."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append((CALLER.get(), dict(scope["headers"])))
        await send({"type": "http.response.start", "status": 200, "headers": JSON})
        await send({"type": "http.response.body", "body": b"{}"})

    return app


def raising(error: BaseException) -> App:
    """An application that fails."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    return app


def text_of(answer: Sequence[Mapping[str, Any]]) -> bytes:
    """The whole body."""
    return b"".join(message.get("body", b"") for message in answer)
