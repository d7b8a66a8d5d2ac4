"""What the parts of the agent share, and what the containers of one pod share."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from e2e.agent.api import Api, ApiError
from e2e.agent.clock import now
from e2e.agent.environment import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import aiohttp

    from e2e.agent.config import AgentConfig
    from e2e.agent.images import Image
    from e2e.agent.network import Networks, PodNetwork
    from e2e.agent.routing import Routing
    from e2e.agent.volumes import Volumes

logger = logging.getLogger(__name__)

Object = dict[str, Any]
REPEAT_SECONDS = 30.0


class Recorder:
    """Writes Events about pods; the same one at most every half minute."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._sent: dict[tuple[str, str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, pod: Object, reason: str, message: str, kind: str = "Warning") -> None:
        """Send an Event; it may get lost, as Events may."""
        key = (pod["metadata"]["uid"], reason, message)
        moment = time.monotonic()
        if moment - self._sent.get(key, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        self._sent[key] = moment
        logger.info("pod %s: %s: %s", pod["metadata"]["name"], reason, message)
        task = asyncio.get_running_loop().create_task(self._send(pod, reason, message, kind))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, pod: Object, reason: str, message: str, kind: str) -> None:
        meta = pod["metadata"]
        event = {
            "metadata": {
                "name": f"{meta['name'][:200]}.{time.time_ns():x}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "reason": reason,
            "message": message[:1000],
            "type": kind,
            "source": {"component": "kubelet", "host": pod["spec"].get("nodeName", "")},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }
        try:
            await self._api.post(f"/api/v1/namespaces/{meta['namespace']}/events", event)
        except (ApiError, ConnectionError) as error:
            logger.debug("event not written: %s", error)


@dataclass(frozen=True)
class Shared:
    """The whole agent's."""

    config: AgentConfig
    api: Api
    images: Sequence[Image]
    networks: Networks
    routing: Routing
    session: aiohttp.ClientSession
    recorder: Recorder


@dataclass
class PodContext:
    """One pod's. `pod` is replaced when the object changes; `changed` asks for a new status."""

    shared: Shared
    pod: Object
    folder: Path
    volumes: Volumes
    devices: str
    changed: Callable[[], None]
    network: PodNetwork | None = None

    @property
    def address(self) -> str:
        """The pod's address; empty before it has one."""
        return self.network.address if self.network else ""

    @property
    def hosts(self) -> Path:
        """The pod's hosts file."""
        return self.folder / "hosts"

    @property
    def restart_policy(self) -> str:
        """The pod's `restartPolicy`."""
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        value = self.pod["spec"].get("terminationGracePeriodSeconds")
        return float(30 if value is None else value)

    def sources(self, objects: Mapping[tuple[str, str], Object] | None = None) -> Sources:
        """What references in the manifest may mean now."""
        gateway = self.shared.config.gateway
        addresses = {
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": gateway,
            "status.hostIPs": gateway,
        }
        return Sources(self.pod, addresses, objects or {})

    def event(self, reason: str, message: str, kind: str = "Warning") -> None:
        """Write an Event about the pod."""
        self.shared.recorder.record(self.pod, reason, message, kind)
