"""One streamed request over HTTP, timed."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tenantry_bench.errors import UnavailableError
from tenantry_bench.sse import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.plan import Request

REFUSALS = frozenset({403, 429, 503})
"""Statuses by which a server says that it will not take the request now, or from this tenant."""

IDLE_SECONDS = 2.0
"""How long an idle connection is kept: less than servers keep it, or a send meets a closing one."""

CONNECT_SECONDS = 10.0


class Outcome(StrEnum):
    """How a request ended; every measured request has exactly one."""

    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(slots=True)
class Record:
    """What happened to one request; times in seconds since the start of the run.

    Its latency starts at `begun`: the planned time in an open loop, the sending in a closed one.
    """

    request: Request
    begun: float
    sent: float
    stream: Stream = field(default_factory=Stream)
    ended: float | None = None
    outcome: Outcome = Outcome.UNFINISHED
    reason: str = ""
    retry_after: float | None = None

    @property
    def tenant(self) -> str:
        """Who it counts for; without a header everybody is `default`."""
        return self.request.tenant or "default"

    def end(self, now: float, outcome: Outcome, reason: str = "") -> None:
        self.ended, self.outcome, self.reason = now, outcome, reason


@dataclass(frozen=True)
class Endpoint:
    """What a server says about itself before the load."""

    model: str
    max_model_len: int | None
    version: str | None


class Client:
    """A pool of connections to one server, for use in `async with`."""

    def __init__(self, url: str, header: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._header = header
        self._timeout = timeout
        # The default limit of 100 connections would queue inside the generator, unseen.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def endpoint(self, model: str | None) -> Endpoint:
        """Ask the server what it serves; raises UnavailableError when it does not answer."""
        listed = _models(await self._get("/v1/models"))
        names = [entry["id"] for entry in listed]
        if not names or (model is not None and model not in names):
            raise UnavailableError(
                f"{self._url} serves {', '.join(names) or 'no model'}"
                + ("" if model is None else f", not {model}; leave --model out or name one of them")
            )
        entry = listed[0 if model is None else names.index(model)]
        limit = entry.get("max_model_len")
        known = limit if type(limit) is int else None
        return Endpoint(entry["id"], known, await self._version())

    async def _version(self) -> str | None:
        try:
            version = (await self._get("/version")).get("version")
        except UnavailableError:
            return None  # only vLLM has it, and the results say null where it is not known
        return version if isinstance(version, str) and version else None

    async def _get(self, path: str) -> dict[str, Any]:
        try:
            async with self._session.get(self._url + path) as response:
                if response.status != 200:
                    raise UnavailableError(f"{self._url}{path} answers {response.status}")
                body = json.loads(await response.read())
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as error:
            raise UnavailableError(
                f"{self._url}{path} cannot be used: {error or type(error).__name__}; "
                "is the server up and reachable from here?"
            ) from error
        if not isinstance(body, dict):
            raise UnavailableError(
                f"{self._url}{path} answers no JSON object; is this an OpenAI-compatible server?"
            )
        return body

    async def send(self, record: Record, clock: Callable[[], float]) -> None:
        """Send the record's request and note in it what comes back, and when, by `clock`.

        A cancelled send is an unfinished request, and so is one that outlasts the time limit.
        """
        tenant = record.request.tenant
        headers = {"Content-Type": "application/json"}
        if tenant is not None:
            headers[self._header] = tenant
        try:
            async with self._session.post(
                f"{self._url}/v1/completions", data=record.request.body, headers=headers
            ) as response:
                await self._receive(response, record, clock)
        except asyncio.CancelledError:
            record.end(clock(), Outcome.UNFINISHED, "cut off")
            raise
        except aiohttp.ClientConnectorError as error:
            record.end(clock(), Outcome.FAILED, str(error))
        except TimeoutError:
            record.end(clock(), Outcome.UNFINISHED, f"no end within {self._timeout:g} s")
        except aiohttp.ClientError as error:
            record.end(clock(), Outcome.FAILED, str(error) or type(error).__name__)

    async def _receive(
        self, response: aiohttp.ClientResponse, record: Record, clock: Callable[[], float]
    ) -> None:
        if response.status != 200:
            body = (await response.content.read(500)).decode(errors="replace")
            refused = response.status in REFUSALS
            record.retry_after = retry_after(response.headers.get("Retry-After"))
            outcome = Outcome.REFUSED if refused else Outcome.FAILED
            record.end(clock(), outcome, f"{response.status}: {' '.join(body.split())}")
            return
        stream = record.stream
        async for data in response.content.iter_any():
            stream.feed(data, clock())
            if stream.error is not None:
                break
        if stream.error is not None:
            record.end(clock(), Outcome.FAILED, f"error in the stream: {stream.error}")
        elif not stream.complete:
            record.end(clock(), Outcome.FAILED, "the stream broke off")
        else:
            record.end(clock(), Outcome.FINISHED)


def _models(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a list of models that can be asked for."""
    listed = body.get("data")
    entries = listed if isinstance(listed, list) else []
    return [e for e in entries if isinstance(e, dict) and isinstance(e.get("id"), str)]


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header; None for a date, or without one."""
    return float(header) if header is not None and re.fullmatch(r"[0-9]{1,9}", header) else None
