"""The agent as a whole: what it watches and which worker answers for what."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING, Any

import aiohttp

from e2e.agent import images, resources
from e2e.agent.api import STRATEGIC, Api, ApiError, pod_path
from e2e.agent.context import Recorder, Shared
from e2e.agent.kubelet_server import KubeletServer
from e2e.agent.network import Networks
from e2e.agent.nodes import Nodes
from e2e.agent.pods import TERMINAL, PodWorker
from e2e.agent.routing import Routing
from e2e.agent.volumes import own_memory

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.agent.config import AgentConfig

logger = logging.getLogger(__name__)

Object = dict[str, Any]
REPLICAS_LABEL = "nvidia.com/gpu.replicas"


class Agent:
    """Every node of the cluster at once."""

    def __init__(self, config: AgentConfig, shared: Shared) -> None:
        self._config = config
        self._shared = shared
        self._pods: dict[str, Object] = {}
        self._refused: set[str] = set()
        self.workers: dict[str, PodWorker] = {}
        self._books: dict[str, resources.NodeBooks] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._nodes = Nodes(shared.api, config.nodes_file, config.gateway, config.kubelet_port)

    async def run(self) -> None:
        """Serve for ever."""
        server = KubeletServer(self._config, self.find)
        await server.start()
        await asyncio.gather(
            self._shared.routing.run(self._shared.api, self._renamed),
            self._nodes.run(self._node_added, self._node_removed),
            self._nodes.renew_leases(),
            self._shared.api.follow("/api/v1/pods", self._pod_changed, self._pod_gone),
        )

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod."""
        for worker in self.workers.values():
            meta = worker.context.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name):
                return worker
        return None

    def _renamed(self) -> None:
        for worker in self.workers.values():
            worker.write_hosts()

    def _node_added(self, name: str) -> None:
        """Pods may have been bound to the node before this agent knew it."""
        waiting = [pod for pod in self._pods.values() if pod["spec"].get("nodeName") == name]
        for pod in sorted(waiting, key=by_age):
            self._pod_changed(pod)

    async def _node_removed(self, name: str) -> None:
        workers = [
            worker
            for worker in self.workers.values()
            if worker.context.pod["spec"]["nodeName"] == name
        ]
        for worker in workers:
            worker.stop(0)
        if workers:
            await asyncio.wait([worker.task for worker in workers])
        self._books.pop(name, None)

    def _pod_changed(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        self._pods[uid] = pod
        worker = self.workers.get(uid)
        if worker is not None:
            worker.update(pod)
        elif node in self._nodes.specs and uid not in self._refused:
            self._arrived(pod, str(node))

    def _pod_gone(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._pods.pop(uid, None)
        self._refused.discard(uid)
        if uid in self.workers:
            self.workers[uid].stop(0, object_gone=True)

    def _arrived(self, pod: Object, node: str) -> None:
        """A pod of ours without a worker: start, refuse or give it back."""
        if pod["metadata"].get("deletionTimestamp"):
            self._later(self._give_back(pod))
            return
        if pod.get("status", {}).get("phase") in TERMINAL:
            return
        uid, spec = pod["metadata"]["uid"], self._nodes.specs[node]
        books = self._books.setdefault(node, resources.NodeBooks(node))
        wanted = resources.requested(pod)
        refusal = books.check(wanted, spec.allocatable)
        if refusal is not None:
            self._refused.add(uid)
            self._shared.recorder.record(pod, refusal.reason, refusal.message)
            self._later(self._refuse(pod, refusal))
            return
        books.take(uid, wanted)
        replicas = int(spec.labels.get(REPLICAS_LABEL, "1"))
        devices = resources.visible_devices(node, books.devices[uid], replicas)
        worker = PodWorker(self._shared, pod, devices, lambda: books.release(uid))
        self.workers[uid] = worker
        worker.task.add_done_callback(lambda _: self.workers.pop(uid, None))

    def _later(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_back(self, pod: Object) -> None:
        await self._tell(self._shared.api.delete(pod_path(pod), {"gracePeriodSeconds": 0}))

    async def _refuse(self, pod: Object, refusal: resources.Refusal) -> None:
        status = {
            "phase": "Failed",
            "reason": refusal.reason,
            "message": f"Pod was rejected: {refusal.message}",
        }
        await self._tell(
            self._shared.api.patch(pod_path(pod, "status"), {"status": status}, STRATEGIC)
        )

    async def _tell(self, call: Any) -> None:
        try:
            await call
        except (ApiError, ConnectionError) as error:
            if isinstance(error, ApiError) and error.status == 404:
                return
            logger.warning("not told to the API server: %s", error)


def by_age(pod: Object) -> tuple[bool, str, str]:
    """Those that have run before first, then the older, then by name."""
    running = pod.get("status", {}).get("phase") == "Running"
    return not running, pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def wipe(folder: Path) -> None:
    """Take away what an earlier agent left: its processes have died with it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)


async def serve(config: AgentConfig) -> None:
    """Run an agent until it is cancelled."""
    wipe(config.pods_dir)
    own_memory()
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
    async with Api(config.server, config.ca, config.token) as api, session:
        shared = Shared(
            config=config,
            api=api,
            images=images.load(config.images, config.places),
            networks=Networks(config.pod_cidr, config.gateway),
            routing=Routing(config.run_dir),
            session=session,
            recorder=Recorder(api),
        )
        await Agent(config, shared).run()
