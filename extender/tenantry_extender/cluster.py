"""The API server: the only module that talks to Kubernetes. Manifests stay dicts."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio import client, config

from tenantry_api import names
from tenantry_extender.books import Kind
from tenantry_extender.verbs import NoAnswer, Refused
from tenantry_extender.watch import Gone, Unreachable

#: Seconds that one watch stays open, which is also how soon a dead connection is found out.
WATCH_SECONDS = 60
ANSWER_SECONDS = 10.0
_GRACE = 10

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


#: What the client raises for a kubeconfig that is none.
UNREADABLE = (OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)


class NoCluster(Exception):
    """There is no configuration to reach an API server with."""


class Cluster:
    """A connection to the API server, as one ServiceAccount or user."""

    def __init__(self, api: client.ApiClient) -> None:
        core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self._api = api
        self._core = core
        self._lists: Mapping[Kind, Callable[..., Awaitable[aiohttp.ClientResponse]]] = {
            Kind.NODES: core.list_node_without_preload_content,
            Kind.PODS: core.list_pod_for_all_namespaces_without_preload_content,
            Kind.NAMESPACES: core.list_namespace_without_preload_content,
            Kind.POLICIES: lambda **options: (
                custom.list_cluster_custom_object_without_preload_content(
                    names.GROUP, names.VERSION, names.PLURAL, **options
                )
            ),
        }

    @classmethod
    async def connect(cls, kubeconfig: Path | None) -> "Cluster":
        """With a kubeconfig file, or with the pod's ServiceAccount where there is none."""
        settings = client.Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)
            else:
                await config.load_kube_config(str(kubeconfig), client_configuration=settings)
        except (config.ConfigException, *UNREADABLE) as error:
            raise NoCluster(" ".join(str(error).split())) from error
        return cls(client.ApiClient(settings))

    async def close(self) -> None:
        await self._api.close()

    async def list(self, kind: Kind) -> tuple[list[dict[str, Any]], str]:
        try:
            async with await self._lists[kind](_request_timeout=60.0) as response:
                body = await _body(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(_text(error)) from error
        if response.status != 200:
            raise Unreachable(f"HTTP {response.status}: {body.get('message', '')}")
        return body["items"], body["metadata"]["resourceVersion"]

    async def watch(self, kind: Kind, version: str) -> AsyncIterator[Mapping[str, Any]]:
        try:
            response = await self._lists[kind](
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _request_timeout=float(WATCH_SECONDS + _GRACE),
            )
            async with response:
                if response.status != 200:
                    raise _unwatchable(response.status, await _body(response))
                yield {}
                async for line in _lines(response):
                    yield json.loads(line)
                yield {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(_text(error)) from error

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": target,
        }
        call = self._core.create_namespaced_pod_binding_without_preload_content
        await _answered(call(name, namespace, binding, _request_timeout=ANSWER_SECONDS))

    async def node_of(self, namespace: str, name: str, uid: str) -> str:
        call = self._core.read_namespaced_pod_without_preload_content
        try:
            pod = await _answered(call(name, namespace, _request_timeout=ANSWER_SECONDS))
        except Refused:
            return ""
        if pod["metadata"]["uid"] != uid:
            return ""
        return str(pod["spec"].get("nodeName") or "")

    async def poke(self, namespace: str, name: str, at: str) -> None:
        """Change an annotation, which makes kube-scheduler try the pod again."""
        patch = {"metadata": {"annotations": {names.ANNOTATION_POKE: at}}}
        call = self._core.patch_namespaced_pod_without_preload_content
        await _answered(
            call(name, namespace, patch, _content_type=_MERGE, _request_timeout=ANSWER_SECONDS)
        )

    async def explain(self, namespace: str, name: str, version: str, message: str) -> None:
        """Write the message of the pod's PodScheduled condition, unless the pod has changed since
        `version`."""
        condition = {"type": "PodScheduled", "message": message}
        patch = {
            "metadata": {"resourceVersion": version},
            "status": {"conditions": [condition]},
        }
        call = self._core.patch_namespaced_pod_status_without_preload_content
        await _answered(
            call(name, namespace, patch, _content_type=_STRATEGIC, _request_timeout=ANSWER_SECONDS)
        )


async def _answered(call: Awaitable[aiohttp.ClientResponse]) -> dict[str, Any]:
    try:
        async with await call as response:
            body = await _body(response)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NoAnswer(_text(error)) from error
    if response.status >= 500 or response.status == 429:
        raise NoAnswer(f"HTTP {response.status}: {body.get('message', '')}")
    if response.status >= 300:
        raise Refused(f"HTTP {response.status}: {body.get('message', '')}")
    return body


async def _body(response: aiohttp.ClientResponse) -> dict[str, Any]:
    """A large list is decoded beside the event loop, which has verbs to answer meanwhile."""
    raw = await response.read()
    try:
        body: dict[str, Any] = await asyncio.to_thread(json.loads, raw)
    except ValueError:
        return {"message": raw[:200].decode(errors="replace")}
    return body


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Events are lines of any length."""
    pending = bytearray()
    async for chunk in response.content.iter_any():
        pending += chunk
        *whole, rest = pending.split(b"\n")
        pending = bytearray(rest)
        for line in whole:
            if line.strip():
                yield bytes(line)


def _unwatchable(status: int, body: Mapping[str, Any]) -> Exception:
    return Gone() if status == 410 else Unreachable(f"HTTP {status}: {body.get('message', '')}")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
