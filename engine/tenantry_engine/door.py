"""The door in front of an engine: an ASGI class for vLLM's `--middleware`.

It finds out who is calling, hands the answer to `tagging` through a context variable, refuses where
the policy says so, and measures. It reads headers only; a body is never parsed or kept.
"""

import asyncio
import contextlib
import functools
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from tenantry_api.choices import Mode
from tenantry_engine import config as configuration
from tenantry_engine import reload, tagging
from tenantry_engine.config import LOGGER_NAME, ConfigError, EngineConfig
from tenantry_engine.door_metrics import DoorMetrics
from tenantry_engine.exchange import Exchange, Message, Receive, Send
from tenantry_engine.identity import Outcome, Refusal, identify, refusal
from tenantry_engine.tagging import CALLER

Scope: TypeAlias = Message
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Every path by which vLLM takes work for the engine. The others carry the tenant's identity too, so
# that nothing escapes the scheduler, but they are not counted and never refused.
INFERENCE: Final = frozenset(
    {
        "/classify", "/cohere/v2/chat", "/generative_scoring", "/inference/v1/generate",
        "/invocations", "/pooling", "/rerank", "/score", "/v1/audio/transcriptions",
        "/v1/audio/translations", "/v1/chat/completions", "/v1/chat/completions/batch",
        "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/rerank", "/v1/responses",
        "/v1/score", "/v1/systemone", "/v2/embed", "/v2/rerank",
    }
)  # fmt: skip
PRIORITY_HEADER: Final = b"x-vllm-priority"
PEER: Final = "tenantry.peer"
_LOGGER: Final = logging.getLogger(LOGGER_NAME)
_SENTENCES: Final = {
    Refusal.UNKNOWN_TENANT: "the tenant in header {header} is not one of policy {policy}: "
    "use a name that the policy lists",
    Refusal.MALFORMED_TENANT: "header {header} must be given once and hold 1 to 128 printable "
    "characters, without a space at an end, and not `other`",
}
_HINTS: Final = {
    Outcome.UNTRUSTED: "header %s of peer %s is not believed: it is in no network of trusted peers",
    Outcome.UNKNOWN: "header %s of peer %s names a tenant that is not listed",
    Outcome.MALFORMED: "header %s of peer %s is not a tenant's name",
}


class Door:
    """Wraps vLLM's application. The arguments after the first are those of this process."""

    def __init__(
        self,
        app: App,
        watch: reload.PolicyWatch | None = None,
        metrics: DoorMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._clock = clock
        self._watch = watch or _watch()
        self._config = self._watch.config
        self._metrics = metrics or _metrics(self._watch)
        self._hinted: set[Outcome] = set()
        if watch is None:
            _install()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request: ASGI."""
        if scope["type"] not in ("http", "websocket") or self._fresh().mode is Mode.OFF:
            await self._app(scope, receive, send)
            return
        tenant, outcome = identify(scope["headers"], _peer(scope), self._config)
        counted = scope.get("method") == "POST" and _path(scope) in INFERENCE
        caller = tagging.caller(tenant, self._config)
        token = CALLER.set(caller)
        try:
            if counted:
                await self._counted(scope, receive, send, outcome, caller)
            else:
                await self._app(_passed_on(scope, caller), receive, send)
        finally:
            CALLER.reset(token)

    async def _counted(
        self, scope: Scope, receive: Receive, send: Send, outcome: Outcome, caller: tagging.Caller
    ) -> None:
        self._metrics.identified(outcome)
        self._hint(outcome, scope)
        if (reason := refusal(outcome, self._config)) is not None:
            self._metrics.refused(reason)
            await _refuse(send, reason, self._config)
            return
        exchange = Exchange(receive, send, self._metrics.of(caller.tenant), self._clock)
        cancelled = False
        try:
            await self._app(_passed_on(scope, caller), exchange.receive, exchange.send)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            exchange.close(caller.waits, cancelled)

    def _fresh(self) -> EngineConfig:
        changed = self._watch.poll(self._clock())
        if changed is not None:
            self._config = changed
            self._metrics.change(changed)
        return self._config

    def _hint(self, outcome: Outcome, scope: Scope) -> None:
        if outcome in _HINTS and outcome not in self._hinted:
            self._hinted.add(outcome)
            more = "; further ones are only counted in tenantry_identity_total"
            _LOGGER.warning(_HINTS[outcome] + more, self._config.header, _peer(scope))


def remember_peers() -> None:
    """Let uvicorn note the address of the connection before it believes `X-Forwarded-For`.

    From loopback uvicorn puts the header's address in place of the peer's. The door asks who is
    connected, so it needs the address from before.
    """
    with contextlib.suppress(ImportError):
        from uvicorn.middleware.proxy_headers import (  # noqa: PLC0415 - only under uvicorn
            ProxyHeadersMiddleware,
        )

        original = ProxyHeadersMiddleware.__call__
        if hasattr(original, PEER):
            return

        @functools.wraps(original)
        async def noting(self: Any, scope: Any, receive: Any, send: Any) -> None:
            scope[PEER] = scope.get("client")
            await original(self, scope, receive, send)

        setattr(noting, PEER, True)
        ProxyHeadersMiddleware.__call__ = noting  # type: ignore[method-assign]


def _install() -> None:
    remember_peers()
    try:
        tagging.install(door=True)
    except ConfigError as error:
        # Serving goes on: without this seam the engine falls back to vLLM's own scheduler.
        _LOGGER.error("%s", error)  # noqa: TRY400 - a sentence, the trace says no more


@functools.cache
def _watch() -> reload.PolicyWatch:
    config = configuration.load(os.environ, reload.read)
    return reload.watch(os.environ, config, _LOGGER.warning)


@functools.cache
def _metrics(watch: reload.PolicyWatch) -> DoorMetrics:
    return DoorMetrics(watch.config)


def _peer(scope: Scope) -> str | None:
    client = scope.get(PEER) or scope.get("client")
    return client[0] if client else None


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root else path


def _passed_on(scope: Scope, caller: tagging.Caller) -> Scope:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    if not caller.enforce or all(name != PRIORITY_HEADER for name, _ in headers):
        return scope
    return {**scope, "headers": [pair for pair in headers if pair[0] != PRIORITY_HEADER]}


async def _refuse(send: Send, reason: Refusal, config: EngineConfig) -> None:
    sentence = _SENTENCES[reason].format(header=config.header, policy=config.policy)
    error = {
        "message": sentence,
        "type": "PermissionDeniedError",
        "param": config.header,
        "code": 403,
        "reason": reason,
    }
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
