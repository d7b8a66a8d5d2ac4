"""An API server in the test's own process: enough of it for a reconcile, over real HTTP.

Apply replaces each part of an object that the manifest has; it knows no field owners. What depends
on those is tested against the real one.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from tenantry_operator.merge import merge

Object = dict[str, Any]


class Api:
    """Objects by path, and every request in order."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[tuple[str, str, Object]] = []
        self.refusal: tuple[str, int, str] | None = None  # plural, status, message

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    def put(self, path: str, manifest: Object) -> None:
        self.objects[path] = copy.deepcopy(manifest)

    def written(self, part: str) -> list[Object]:
        """The bodies that were written to paths with this part in them."""
        return [body for _, path, body in self.writes if part in path]

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return self._read(request)
        body: Object = json.loads(await request.text())
        if self.refusal and f"/{self.refusal[0]}/" in request.path:
            return _status(self.refusal[1], self.refusal[2])
        self.writes.append((request.method, request.path, body))
        if request.method == "POST":
            return web.json_response(body, status=201)
        apply = request.content_type == "application/apply-patch+yaml"
        return self._patch(request.path, body, apply=apply)

    def _read(self, request: web.Request) -> web.Response:
        if "labelSelector" in request.query:
            return web.json_response({"items": list(self._in(request.path))})
        found = self.objects.get(request.path)
        return web.json_response(found) if found else _status(404, "not found")

    def _in(self, folder: str) -> Iterator[Object]:
        return (item for path, item in self.objects.items() if path.startswith(f"{folder}/"))

    def _patch(self, path: str, body: Object, *, apply: bool) -> web.Response:
        path = path.removesuffix("/status")
        old = self.objects.get(path, {})
        if apply:
            body = {**body, "metadata": {**old.get("metadata", {}), **body["metadata"]}}
        self.objects[path] = {**old, **body} if apply else merge(old, body)
        return web.json_response(self.objects[path])


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "message": message}, status=code)
