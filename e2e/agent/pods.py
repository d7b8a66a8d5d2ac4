"""One worker per pod: network, volumes, init containers, containers, status, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
from typing import TYPE_CHECKING, Any

from e2e.agent import services, status
from e2e.agent.api import STRATEGIC, ApiError, pod_path
from e2e.agent.clock import now
from e2e.agent.context import PodContext, Shared
from e2e.agent.environment import MissingValueError
from e2e.agent.stopping import Deadline
from e2e.agent.supervise import ContainerLoop
from e2e.agent.volumes import VolumeError, Volumes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

Object = dict[str, Any]
RETRY_SECONDS = 1.0
PATCH_RETRY_SECONDS = 0.3
FINAL_TRIES = 20
TERMINAL = frozenset({"Succeeded", "Failed"})


def folder_name(pod: Object) -> str:
    """A pod's folder under the run directory's `pods`."""
    meta = pod["metadata"]
    return f"{meta['namespace']}_{meta['name']}_{meta['uid']}"


class PodWorker:
    """Runs one pod until its object is gone. released: called when its claims are free again."""

    def __init__(
        self, shared: Shared, pod: Object, devices: str, released: Callable[[], None]
    ) -> None:
        folder = shared.config.pods_dir / folder_name(pod)
        volumes = Volumes(shared.api, folder / "volumes", pod)
        self._dirty = asyncio.Event()
        self.context = PodContext(shared, pod, folder, volumes, devices, self._dirty.set)
        self._released = released
        self._deadline: Deadline | None = None
        self._stop = asyncio.Event()
        self._object_gone = False
        self._settled = False
        self._refresh = asyncio.Event()
        self._sent: Object = {}
        self._conditions = {
            each["type"]: each for each in pod.get("status", {}).get("conditions", [])
        }
        self._started_at = pod.get("status", {}).get("startTime") or now()
        self.init = list(self._loops("initContainers", status.CREATING))
        waiting = status.INITIALIZING if self.init else status.CREATING
        self.main = list(self._loops("containers", waiting))
        self.task = asyncio.get_running_loop().create_task(self._run())

    def _loops(self, kind: str, waiting: Object) -> Iterator[ContainerLoop]:
        policy = self.context.restart_policy
        former = "initContainerStatuses" if kind == "initContainers" else "containerStatuses"
        known = {each["name"]: each for each in self.context.pod.get("status", {}).get(former, [])}
        for spec in self.context.pod["spec"].get(kind, []):
            own = policy
            sidecar = kind == "initContainers" and spec.get("restartPolicy") == "Always"
            if kind == "initContainers" and not sidecar:
                own = "Never" if policy == "Never" else "OnFailure"
            loop = ContainerLoop(
                self.context, spec, policy="Always" if sidecar else own, waiting=waiting
            )
            loop.state.is_sidecar = sidecar
            carry_over(loop.state, known.get(spec["name"]))
            yield loop

    def find(self, container: str) -> ContainerLoop | None:
        """The loop of a container by name; the first one for an empty name."""
        for loop in (*self.main, *self.init):
            if container in {"", loop.name}:
                return loop
        return None

    def update(self, pod: Object) -> None:
        """The object has changed. What a kubelet reacts to brings the volumes up to date."""
        former, self.context.pod = self.context.pod, pod
        if _content(former) != _content(pod):
            self._refresh.set()
        if pod["metadata"].get("deletionTimestamp"):
            self.stop(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))

    def stop(self, grace: float, *, object_gone: bool = False) -> None:
        """End the pod within `grace` seconds; a shorter second call counts."""
        self._object_gone = self._object_gone or object_gone
        if self._deadline is None:
            self._deadline = Deadline(grace)
        self._deadline.shorten(grace)
        self._stop.set()

    def write_hosts(self) -> None:
        """Bring the pod's hosts file up to date."""
        context = self.context
        if context.network is None:
            return
        own = {context.pod["metadata"]["name"]: context.address}
        for alias in context.pod["spec"].get("hostAliases", []):
            own |= dict.fromkeys(alias.get("hostnames", []), alias["ip"])
        text = context.shared.routing.hosts(own, context.pod["metadata"]["namespace"])
        services.write_in_place(context.hosts, text)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        helpers = [loop.create_task(self._publish()), loop.create_task(self._keep_volumes())]
        life = loop.create_task(self._life())
        stop = loop.create_task(self._stop.wait())
        try:
            await asyncio.wait({life, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                life.result()
                self._released()
            self._settled = True
            self._dirty.set()
            await stop
            await self._end(life)
        except Exception:
            logger.exception("pod %s: worker failed", folder_name(self.context.pod))
        finally:
            for helper in (*helpers, life, stop):
                helper.cancel()
            await self._clean_up()

    async def _life(self) -> None:
        """Until every container has ended for good."""
        self._dirty.set()
        await self._prepare()
        self.write_hosts()
        for each in self.init:
            task = each.begin()
            if each.state.is_sidecar:
                await each.up.wait()
                continue
            await task
            if each.state.exit_code != 0:
                return
        for each in self.main:
            if self.init:
                each.state.state = dict(status.CREATING)
        await asyncio.gather(*(each.begin() for each in self.main))
        sidecars = [each for each in self.init if each.state.is_sidecar]
        await asyncio.gather(*(each.stop(Deadline(self.context.grace)) for each in sidecars))

    async def _prepare(self) -> None:
        """Network and volumes; tried again, with an event, until they are there."""
        context = self.context
        context.folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                if context.network is None:
                    context.network = await context.shared.networks.create()
                    self._dirty.set()
                await context.volumes.setup(context.sources())
            except OSError as error:
                context.event("FailedCreatePodSandBox", str(error))
            except (VolumeError, MissingValueError) as error:
                context.event("FailedMount", f"MountVolume.SetUp failed: {error}")
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _keep_volumes(self) -> None:
        """Refresh on a pod update and once a minute, no sooner: as a kubelet does."""
        period = self.context.shared.config.volume_refresh
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._refresh.wait(), period)
            self._refresh.clear()
            if self.context.network is None:
                continue
            try:
                await self.context.volumes.refresh(self.context.sources())
            except (VolumeError, MissingValueError, ConnectionError) as error:
                self.context.event("FailedMount", f"volumes not refreshed: {error}")

    async def _end(self, life: asyncio.Task[None]) -> None:
        """Stop what runs, say so, and give the object back."""
        deadline = self._deadline or Deadline(0)
        if any(loop.state.running for loop in self.main):
            self.context.event("Killing", "Stopping containers of the pod", "Normal")
        await asyncio.gather(*(loop.stop(deadline) for loop in self.main))
        life.cancel()
        await asyncio.gather(*(loop.stop(deadline) for loop in self.init))

    async def _clean_up(self) -> None:
        context = self.context
        self._released()
        if context.network is not None:
            context.shared.networks.destroy(context.network)
        if not self._object_gone:
            await self._delete_object()
        context.volumes.remove()
        shutil.rmtree(context.folder, ignore_errors=True)

    async def _delete_object(self) -> None:
        pod = self.context.pod
        options = {
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        for _ in range(FINAL_TRIES):
            try:
                await self._patch_status()
                await self.context.shared.api.delete(pod_path(pod), options)
            except ApiError as error:
                if error.status in {404, 409}:
                    return
                logger.warning("pod %s not deleted yet: %s", pod["metadata"]["name"], error)
            except ConnectionError as error:
                logger.warning("pod %s not deleted yet: %s", pod["metadata"]["name"], error)
            else:
                return
            await asyncio.sleep(PATCH_RETRY_SECONDS)

    async def _publish(self) -> None:
        """Send the status whenever something has changed, one patch at a time."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            self._write_state()
            try:
                await self._patch_status()
            except (ApiError, ConnectionError) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    continue
                logger.warning("status of %s not written: %s", folder_name(self.context.pod), error)
                await asyncio.sleep(PATCH_RETRY_SECONDS)
                self._dirty.set()

    async def _patch_status(self) -> None:
        wanted = self._status()
        if wanted == self._sent:
            return
        path = pod_path(self.context.pod, "status")
        body = {"metadata": {"uid": self.context.pod["metadata"]["uid"]}, "status": wanted}
        await self.context.shared.api.patch(path, body, STRATEGIC)
        self._sent = wanted

    def _status(self) -> Object:
        view = status.View(
            [loop.state for loop in self.main],
            [loop.state for loop in self.init],
            self.context.restart_policy,
            self._stop.is_set(),
        )
        networked = self.context.network is not None
        self._conditions = self._conditions | status.condition_list(
            status.conditions(view, networked=networked), self._conditions, now()
        )
        kubelets = status.conditions(view, networked=networked)
        gateway = self.context.shared.config.gateway
        found: Object = {
            "phase": status.phase(view),
            "hostIP": gateway,
            "hostIPs": [{"ip": gateway}],
            "startTime": self._started_at,
            "conditions": [self._conditions[kind] for kind in kubelets],
            "containerStatuses": [each.document() for each in view.main],
        }
        if view.init:
            found["initContainerStatuses"] = [each.document() for each in view.init]
        if self.context.address:
            found |= {
                "podIP": self.context.address,
                "podIPs": [{"ip": self.context.address}],
            }
        return found

    def _write_state(self) -> None:
        """Which processes are this pod's; ids as the sandbox's pid namespace numbers them."""
        running = {
            loop.name: {"pid": loop.process.pid, "restarts": loop.state.restarts}
            for loop in (*self.init, *self.main)
            if loop.process is not None and loop.process.alive
        }
        path = self.context.folder / "state.json"
        if path.parent.is_dir():
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps({"containers": running}), encoding="utf-8")
            fresh.rename(path)


def _content(pod: Object) -> tuple[Object, Object, Object]:
    """What makes a kubelet look at a pod again: not its status."""
    meta = pod["metadata"]
    return meta.get("labels", {}), meta.get("annotations", {}), pod["spec"]


def carry_over(state: status.ContainerState, former: Object | None) -> None:
    """After a restart of the agent: what ran has died with it and counts as a restart."""
    if former is None or not former.get("containerID"):
        return
    state.restarts = int(former.get("restartCount", 0)) + 1
    began = former.get("state", {}).get("running", {}).get("startedAt", now())
    state.last = status.terminated(137, began, now(), "the node agent was restarted")
