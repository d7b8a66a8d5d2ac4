"""Reading the API server with the standard library: enough to wait for something."""

import json
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 5.0
NODES = "/api/v1/nodes"
NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True)
class Access:
    """A server, who signed its certificate, the token to show and the proxy on the way."""

    server: str
    ca: Path
    token: str
    proxy: str | None = None

    @classmethod
    def of(cls, kubeconfig: Path, *, direct: bool = False) -> "Access":
        """The access that a kubeconfig of this package gives; `direct`: without the proxy."""
        body = json.loads(kubeconfig.read_text())
        cluster = body["clusters"][0]["cluster"]
        return cls(
            cluster["server"],
            Path(cluster["certificate-authority"]),
            body["users"][0]["user"]["token"],
            None if direct else cluster.get("proxy-url"),
        )


def get(access: Access, path: str) -> Any:
    """The JSON at `path`, or None where the server does not answer with it (yet)."""
    return _json(ask(access, access.server + path))


def ask(access: Access, url: str) -> bytes | None:
    """The body of a GET that was answered with 200, else None."""
    parts = urlsplit(url)
    try:
        connection = _connection(access, parts.scheme, parts.hostname or "", parts.port)
    except OSError:
        return None
    try:
        connection.request("GET", parts.path, headers={"Authorization": f"Bearer {access.token}"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return body if answer.status == 200 else None


def ready_nodes(nodes: Mapping[str, Any]) -> set[str]:
    """The names of those nodes of a NodeList on which pods can be placed."""
    return {node["metadata"]["name"] for node in nodes["items"] if _is_ready(node)}


def has_exactly(nodes: Mapping[str, Any] | None, names: Collection[str]) -> bool:
    """Whether a NodeList holds these nodes and no other, all of them ready."""
    if nodes is None:
        return False
    there = {node["metadata"]["name"] for node in nodes["items"]}
    return there == set(names) and ready_nodes(nodes) == there


def _is_ready(node: Mapping[str, Any]) -> bool:
    tainted = any(taint["key"] == NOT_READY for taint in node["spec"].get("taints") or ())
    conditions = node.get("status", {}).get("conditions") or ()
    return not tainted and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _json(body: bytes | None) -> Any:
    return None if body is None else json.loads(body)


def _connection(access: Access, scheme: str, host: str, port: int | None) -> HTTPConnection:
    if scheme == "http":
        return HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=str(access.ca))
    if access.proxy is None:
        return HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    proxy = urlsplit(access.proxy)
    connection = HTTPSConnection(
        proxy.hostname or "", proxy.port, timeout=TIMEOUT_SECONDS, context=context
    )
    connection.set_tunnel(host, port)
    return connection
