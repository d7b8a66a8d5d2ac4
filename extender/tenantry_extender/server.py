"""The HTTP rim: kube-scheduler's verbs on one address, health and metrics on another.

Binding is a privilege, so the verbs are for the same pod only and listen on loopback. Every answer
to a verb is HTTP 200; what went wrong stands in `Error`, because kube-scheduler shows that text and
loses the body of any other status.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from tenantry_extender import verbs, wire
from tenantry_extender.books import Books
from tenantry_extender.metrics import ExtenderMetrics
from tenantry_extender.verbs import Answer, Binder

log = logging.getLogger(__name__)

PREFIX = "/tenantry"
#: 5,000 whole nodes are some 40 MB.
LARGEST_BODY = 64 * 1024 * 1024
#: Books older than this may miss pods that hold GPUs; a watch shows life at least once a minute.
STALE_SECONDS = 150.0

Clock = Callable[[], float]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Verbs:
    """The three verbs over HTTP."""

    books: Books
    binder: Binder
    metrics: ExtenderMetrics
    clock: Clock

    def app(self) -> web.Application:
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post(f"{PREFIX}/filter", self._handler("filter", self._filter))
        app.router.add_post(f"{PREFIX}/prioritize", self._handler("prioritize", self._prioritize))
        app.router.add_post(f"{PREFIX}/bind", self._handler("bind", self._bind))
        return app

    async def _filter(self, body: bytes) -> Answer:
        args = wire.parse(wire.Args, body)
        self._check_books()
        return verbs.filter_nodes(args, self.books.snapshot)

    async def _prioritize(self, body: bytes) -> Answer:
        return verbs.prioritize(wire.parse(wire.Args, body), self.books.snapshot)

    async def _bind(self, body: bytes) -> Answer:
        args = wire.parse(wire.BindingArgs, body)
        self._check_books()
        return await verbs.bind(args, self.books, self.binder, self.clock())

    def _check_books(self) -> None:
        trouble = why_not_ready(self.books, self.clock())
        if trouble:
            raise NotReady(trouble)

    def _handler(self, verb: str, answer: Callable[[bytes], Awaitable[Answer]]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            began = self.clock()
            found = await self._answer(verb, answer, await request.read())
            self.metrics.decided(verb, found.reason)
            outcome = "error" if getattr(found.reply, "error", "") else "ok"
            self.metrics.answered(verb, outcome, self.clock() - began)
            return web.Response(body=_encode(found.reply), content_type="application/json")

        return handle

    async def _answer(
        self, verb: str, answer: Callable[[bytes], Awaitable[Answer]], body: bytes
    ) -> Answer:
        try:
            return await answer(body)
        except wire.Malformed as error:
            log.warning("%s: malformed request: %s", verb, error)
            return _error(verb, f"tenantry: malformed request: {error}", "malformed")
        except NotReady as error:
            return _error(verb, f"tenantry: {error}", "not_ready")
        except Exception:
            log.exception("%s failed on %.2000r", verb, body)
            return _error(verb, "tenantry: internal error, see the extender's log", "internal")


class NotReady(Exception):
    """The books cannot be trusted now."""


def why_not_ready(books: Books, now: float) -> str:
    """One sentence, or "" where all is well."""
    if not books.complete():
        missing = ", ".join(kind.value for kind in books.missing())
        return f"the books are not complete yet, {missing} are not listed"
    age = books.age(now)
    if age > STALE_SECONDS:
        return "the books are too old, the API server cannot be watched"
    return ""


def observers(books: Books, metrics: ExtenderMetrics, clock: Clock) -> web.Application:
    """Health and metrics, for the kubelet and Prometheus."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        trouble = why_not_ready(books, clock())
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    async def show(_request: web.Request) -> web.Response:
        text = generate_latest(metrics.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", show)
    return app


async def listen(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Serve `app`; OSError where the address cannot be had."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


def _error(verb: str, text: str, reason: str) -> Answer:
    """prioritize has no field for an error: no scores, then, and kube-scheduler uses its own."""
    replies: dict[str, object] = {
        "filter": wire.FilterResult(error=text),
        "bind": wire.BindingResult(error=text),
    }
    return Answer(replies.get(verb, []), reason)


def _encode(reply: object) -> bytes:
    if isinstance(reply, BaseModel):
        return reply.model_dump_json(by_alias=True).encode()
    items: Sequence[BaseModel] = reply if isinstance(reply, list) else []
    return b"[" + b",".join(item.model_dump_json(by_alias=True).encode() for item in items) + b"]"
