"""A server that streams completions as it is told, on a port of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MODEL = {"data": [{"id": "stub", "max_model_len": 4096}]}


def event(text: str, **more: object) -> bytes:
    """Return a completion chunk as vLLM sends it."""
    body = {"choices": [{"index": 0, "text": text, "finish_reason": None}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def usage(prompt: int, output: int) -> bytes:
    counted = {"prompt_tokens": prompt, "completion_tokens": output}
    return b"data: " + json.dumps({"choices": [], "usage": counted}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def stream(request: web.Request) -> web.StreamResponse:
    """Return an open event stream to write to."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer a completion at once, one event a token."""
    body = await request.json()
    response = await stream(request)
    for number in range(body["max_tokens"]):
        await response.write(event(f"w{number} "))
    await response.write(usage(len(body["prompt"]), body["max_tokens"]) + DONE)
    return response


@asynccontextmanager
async def serving(handler: Handler, listing: Handler | None = None) -> AsyncIterator[str]:
    """Serve `handler` at /v1/completions and yield the base URL."""
    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    app.router.add_get("/v1/models", listing or models)
    app.router.add_get("/version", version)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def models(_: web.Request) -> web.Response:
    return web.json_response(MODEL)


async def version(_: web.Request) -> web.Response:
    return web.json_response({"version": "0.0-stub"})
