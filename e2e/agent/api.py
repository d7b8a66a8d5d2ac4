"""The Kubernetes API as raw JSON: requests, server-side patches, list and watch.

No model classes: manifests stay dicts, so thirty pods cost a few megabytes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiError(RuntimeError):
    """The API server said no; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """One connection pool to the API server. Use it as an asynchronous context manager."""

    def __init__(self, server: str, ca: Path | None, token: str) -> None:
        self._server = server.rstrip("/")
        self._tls = ssl.create_default_context(cafile=None if ca is None else str(ca))
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Api:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the API client is used outside of its context")
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """One call; raises ApiError for any status from 400 on, ConnectionError if none came."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        try:
            async with self._http.request(
                method, self._server + path, data=data, headers=headers, params=query
            ) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{method} {path}: {error or 'timed out'}") from error
        document: Object = json.loads(text) if text.startswith("{") else {"message": text}
        if answer.status >= 400:
            raise ApiError(answer.status, str(document.get("message", "")))
        return document

    async def get(self, path: str) -> Object:
        """GET."""
        return await self.request("GET", path)

    async def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """POST."""
        return await self.request("POST", path, body)

    async def patch(self, path: str, body: Mapping[str, Any], content_type: str = MERGE) -> Object:
        """PATCH, a merge patch unless said otherwise."""
        return await self.request("PATCH", path, body, content_type)

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Object:
        """DELETE with delete options."""
        return await self.request("DELETE", path, body)

    async def follow(
        self, path: str, changed: Callable[[Object], None], gone: Callable[[Object], None]
    ) -> None:
        """List, then watch, for ever: call `changed` for what is there, `gone` for what was.

        A broken watch is followed by a new list, and what is missing from it is reported gone.
        """
        known: dict[str, Object] = {}
        while True:
            try:
                version = await self._list(path, known, changed, gone)
                await self._watch(path, version, known, changed, gone)
            except (ApiError, ConnectionError, aiohttp.ClientError, ValueError) as error:
                logger.debug("watch of %s ended: %s", path, error)
                await asyncio.sleep(0.2)

    async def _list(
        self,
        path: str,
        known: dict[str, Object],
        changed: Callable[[Object], None],
        gone: Callable[[Object], None],
    ) -> str:
        answer = await self.get(path)
        found = {item["metadata"]["uid"]: item for item in answer.get("items", [])}
        for uid in [uid for uid in known if uid not in found]:
            gone(known.pop(uid))
        for uid, item in found.items():
            known[uid] = item
            changed(item)
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(
        self,
        path: str,
        version: str,
        known: dict[str, Object],
        changed: Callable[[Object], None],
        gone: Callable[[Object], None],
    ) -> None:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._http.get(
            self._server + path, params=query, timeout=timeout, read_bufsize=2**24
        ) as stream:
            if stream.status >= 400:
                raise ApiError(stream.status, await stream.text())
            async for line in stream.content:
                event = json.loads(line)
                item = event["object"]
                if event["type"] == "ERROR":
                    raise ApiError(int(item.get("code", 500)), str(item.get("message")))
                if event["type"] == "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                    gone(item)
                elif event["type"] != "BOOKMARK":
                    known[item["metadata"]["uid"]] = item
                    changed(item)


def pod_path(pod: Object, subresource: str = "") -> str:
    """The URL path of a pod."""
    meta = pod["metadata"]
    tail = f"/{subresource}" if subresource else ""
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}{tail}"
