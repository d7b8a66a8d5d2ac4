"""List and watch: keeps the books equal to the cluster.

One task per kind of object. A stream that ends is taken up again at the last resource version; a
version that the API server no longer has (410) means a new list. While the API server is away the
books stay as they are and grow old, which `/readyz` and `tenantry_snapshot_age_seconds` show.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from tenantry_extender.books import Books, Kind

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


class Gone(Exception):
    """The API server has forgotten the resource version: list again."""


class Unreachable(Exception):
    """No list or watch now; the text says why."""


class Source(Protocol):
    """Where objects come from. Both raise Unreachable; `watch` raises Gone."""

    async def list(self, kind: Kind) -> tuple[list[dict[str, Any]], str]:
        """All objects, and the resource version to watch from."""
        ...

    def watch(self, kind: Kind, version: str) -> AsyncIterator[Mapping[str, Any]]:
        """Events `{type, object}` until the server ends the stream. An event without a type means
        that the stream is open and everything before has been sent."""
        ...


async def follow(kind: Kind, source: Source, books: Books, clock: Callable[[], float]) -> None:
    """Keep one kind of object in the books up to date, for ever."""
    version, pause = "", FIRST_PAUSE
    while True:
        try:
            if not version:
                bodies, version = await source.list(kind)
                books.replace(kind, bodies, clock())
                log.info("listed %d %s", len(bodies), kind.value)
            began = clock()
            async for event in source.watch(kind, version):
                version = _write(kind, event, books) or version
                books.heard(kind, clock())
                pause = FIRST_PAUSE
            if clock() - began > LONGEST_PAUSE:
                continue  # the server ends every stream in time; one that ends at once is ill
        except Gone:
            log.info("the API server has forgotten version %s of %s; listing again", version, kind)
            version = ""
        except Unreachable as error:
            log.warning("cannot follow %s: %s; trying again in %.1f s", kind.value, error, pause)
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)


def _write(kind: Kind, event: Mapping[str, Any], books: Books) -> str:
    """Write one event into the books; returns its resource version, "" for none."""
    body = event.get("object") or {}
    match event.get("type"):
        case "ADDED" | "MODIFIED":
            books.put(kind, body)
        case "DELETED":
            books.remove(kind, body)
        case "ERROR":
            if body.get("code") == 410:
                raise Gone
            raise Unreachable(str(body.get("message") or body))
    return str((body.get("metadata") or {}).get("resourceVersion") or "")
