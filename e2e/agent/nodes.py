"""Nodes: the file of the cluster's owner becomes Node objects with status and Leases.

The file is a JSON list of {name, labels, capacity}; it is replaced as a whole and looked at every
0.3 s. A node that leaves it takes its Node object and its pods along.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from e2e.agent.api import MERGE, Api, ApiError
from e2e.agent.clock import now, now_micro

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.3
LEASE_SECONDS = 10.0
BASE_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "256Gi"}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@dataclass(frozen=True)
class NodeSpec:
    """A node as the cluster's owner wants it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)

    @property
    def allocatable(self) -> dict[str, str]:
        """Everything of it is there for pods."""
        return BASE_CAPACITY | {name: str(value) for name, value in self.capacity.items()}


def parse(text: str) -> dict[str, NodeSpec]:
    """The nodes file; ValueError where it is none."""
    found = [
        NodeSpec(item["name"], item.get("labels", {}), item.get("capacity", {}))
        for item in json.loads(text)
    ]
    return {spec.name: spec for spec in found}


def all_labels(spec: NodeSpec) -> dict[str, str]:
    """The owner's labels over those that every kubelet sets."""
    return {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    } | dict(spec.labels)


def status(spec: NodeSpec, address: str, port: int) -> dict[str, Any]:
    """The status of a node that is up.

    `declaredFeatures` lets the API server pass the WebSocket of `kubectl exec` through.
    """
    beat = now()
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the node agent is running",
        "lastHeartbeatTime": beat,
        "lastTransitionTime": beat,
    }
    return {
        "capacity": spec.allocatable,
        "allocatable": spec.allocatable,
        "conditions": [condition],
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": spec.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "processes://1",
            "kernelVersion": "",
            "osImage": "the machine's own",
            "machineID": spec.name,
            "systemUUID": spec.name,
            "bootID": spec.name,
        },
    }


class Nodes:
    """Keeps the cluster's Node objects as the file says; `specs` is what is registered."""

    def __init__(self, api: Api, path: Path, address: str, port: int) -> None:
        self._api = api
        self._path = path
        self._address = address
        self._port = port
        self.specs: dict[str, NodeSpec] = {}

    async def run(
        self, added: Callable[[str], None], removed: Callable[[str], Awaitable[None]]
    ) -> None:
        """Follow the file for ever."""
        seen = ""
        while True:
            with contextlib.suppress(FileNotFoundError):
                text = self._path.read_text(encoding="utf-8")
                if text != seen and await self._follow(text, added, removed):
                    seen = text
            await asyncio.sleep(POLL_SECONDS)

    async def _follow(
        self, text: str, added: Callable[[str], None], removed: Callable[[str], Awaitable[None]]
    ) -> bool:
        """Whether everything the file asks for is done."""
        try:
            wanted = parse(text)
            for name in [name for name in self.specs if name not in wanted]:
                del self.specs[name]
                await removed(name)
                await self._remove(name)
            changed = [spec for name, spec in wanted.items() if self.specs.get(name) != spec]
            await asyncio.gather(*(self._register(spec) for spec in changed))
        except (ValueError, KeyError, ApiError, ConnectionError) as error:
            logger.warning("nodes file not in force yet: %r", error)
            return False
        for spec in changed:
            added(spec.name)
        return True

    async def _register(self, spec: NodeSpec) -> None:
        labels: dict[str, str | None] = dict(all_labels(spec))
        former = self.specs.get(spec.name)
        if former is not None:
            labels = dict.fromkeys(all_labels(former)) | labels
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": spec.name, "labels": all_labels(spec)},
        }
        path = f"/api/v1/nodes/{spec.name}"
        await self._renew(spec.name)
        try:
            await self._api.post("/api/v1/nodes", node)
        except ApiError as error:
            if error.status != 409:
                raise
            await self._api.patch(path, {"metadata": {"labels": labels}})
        body: dict[str, Any] = status(spec, self._address, self._port)
        if former is not None:
            for kind in ("capacity", "allocatable"):
                body[kind] = dict.fromkeys(former.allocatable) | body[kind]
        await self._api.patch(f"{path}/status", {"status": body}, MERGE)
        self.specs[spec.name] = spec
        logger.info("node %s registered: %s", spec.name, dict(spec.capacity))

    async def _remove(self, name: str) -> None:
        for path in (f"/api/v1/nodes/{name}", f"{_LEASES}/{name}"):
            try:
                await self._api.delete(path)
            except ApiError as error:
                if error.status != 404:
                    raise
        logger.info("node %s removed", name)

    async def renew_leases(self) -> None:
        """Beat every node's heart for ever; without it the node turns NotReady."""
        while True:
            for name in list(self.specs):
                try:
                    await self._renew(name)
                except (ApiError, ConnectionError) as error:
                    logger.warning("lease of node %s not renewed: %s", name, error)
            await asyncio.sleep(LEASE_SECONDS)

    async def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
        try:
            await self._api.patch(f"{_LEASES}/{name}", {"spec": spec})
        except ApiError as error:
            if error.status != 404:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            await self._api.post(_LEASES, lease | {"metadata": {"name": name}, "spec": spec})
