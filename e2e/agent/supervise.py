"""One container through its life: started, probed, ended, started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from e2e.agent import container as processes
from e2e.agent import probes, status
from e2e.agent.clock import now
from e2e.agent.environment import MissingValueError
from e2e.agent.launching import ForbiddenError, ImageMissingError, prepare
from e2e.agent.restarts import PROVEN_SECONDS, Backoff, starts_again
from e2e.agent.stopping import Deadline, run_hook, terminate
from e2e.agent.volumes import VolumeError

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.agent.container import Launch, Process
    from e2e.agent.context import PodContext

Object = dict[str, Any]
CONFIG_RETRY_SECONDS = 2.0
START_ERROR = 128


class ContainerLoop:
    """Runs one container until its restart policy is satisfied. `state` is what to show."""

    def __init__(self, context: PodContext, spec: Object, *, policy: str, waiting: Object) -> None:
        self.context = context
        self.spec = spec
        self.name: str = spec["name"]
        self.state = status.ContainerState(self.name, spec["image"], state=dict(waiting))
        self.process: Process | None = None
        self.launch: Launch | None = None
        self.up = asyncio.Event()
        self._policy = policy
        self._stopping = False
        self._message = ""
        self._task: asyncio.Task[None] | None = None
        config = context.shared.config
        self._backoff = Backoff(config.backoff_initial, config.backoff_max)

    @property
    def folder(self) -> Path:
        """The container's folder: its logs and its root's mount point."""
        return self.context.folder / self.name

    def log(self, attempt: int) -> Path:
        """The log of the start number `attempt`, counted as `restartCount` is."""
        return self.folder / f"{attempt}.log"

    def begin(self) -> asyncio.Task[None]:
        """Start the loop; the task ends when the container will not start again."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self._task

    async def stop(self, deadline: Deadline) -> None:
        """preStop, SIGTERM, SIGKILL at the deadline; returns when the process is gone."""
        self._stopping = True
        if self._task is None:
            return
        if self.process is not None and self.process.alive and self.launch is not None:
            await terminate(self.process, self.launch, self.spec, self.context, deadline)
        else:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            launch = await self._prepared()
            began = time.monotonic()
            code = await self._once(launch)
            if not self._starts_again(code):
                return
            failures = 0 if time.monotonic() - began > PROVEN_SECONDS else failures + 1
            await self._back_off(self._backoff.wait(failures - 1))
            self.state.restarts += 1

    def _starts_again(self, code: int) -> bool:
        return not self._stopping and starts_again(self._policy, code)

    async def _prepared(self) -> Launch:
        """The container's launch; waits, with the reason shown, while it cannot be made."""
        base = self.folder / "root"
        while True:
            try:
                return await prepare(self.context, self.spec, base)
            except ImageMissingError as error:
                self._waiting("ErrImageNeverPull", str(error))
            except (MissingValueError, ForbiddenError, VolumeError) as error:
                self._waiting("CreateContainerConfigError", str(error))
            except ConnectionError as error:
                self._waiting("CreateContainerError", str(error))
            await asyncio.sleep(CONFIG_RETRY_SECONDS)

    def _waiting(self, reason: str, message: str) -> None:
        self.context.event("Failed", f"Error: {reason}: {message}")
        self.state.state = {"waiting": {"reason": reason, "message": message}}
        self.context.changed()

    async def _back_off(self, seconds: float) -> None:
        if seconds <= 0:
            return
        meta = self.context.pod["metadata"]
        message = (
            f"back-off {seconds:g}s restarting failed container={self.name} "
            f"pod={meta['name']}_{meta['namespace']}({meta['uid']})"
        )
        self.context.event("BackOff", "Back-off restarting failed container " + self.name)
        self.state.last = self.state.state
        self.state.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        self.context.changed()
        await asyncio.sleep(seconds)

    async def _once(self, launch: Launch) -> int:
        """One run of the program, from its start to its exit status."""
        began = now()
        self._message = ""
        try:
            process = await self._start(launch)
        except processes.StartError as error:
            self.context.event("Failed", f"Error: {error}")
            self._over(status.terminated(START_ERROR, began, now(), str(error)), "StartError")
            return START_ERROR
        self.process, self.launch = process, launch
        self._running(process, began)
        watching = asyncio.get_running_loop().create_task(self._attend(process, launch))
        try:
            code = await process.wait()
        finally:
            watching.cancel()
        self._over(status.terminated(code, began, now(), self._message))
        return code

    async def _start(self, launch: Launch) -> Process:
        (self.folder / "root").mkdir(parents=True, exist_ok=True)
        self.log(self.state.restarts - 2).unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        log = os.open(self.log(self.state.restarts), flags, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            return await processes.start(launch, processes.Streams(null, log, log))
        finally:
            os.close(log)
            os.close(null)

    def _running(self, process: Process, began: str) -> None:
        if not self.state.running and self.state.state.get("terminated"):
            self.state.last = self.state.state
        uid = self.context.pod["metadata"]["uid"]
        self.state.identifier = f"{uid}-{self.name}-{self.state.restarts}-{process.pid}"
        self.state.state = {"running": {"startedAt": began}}
        self.state.started = False
        self.context.event("Started", f"Started container {self.name}", "Normal")
        self.context.changed()

    def _over(self, ended: Object, reason: str = "") -> None:
        if reason:
            ended["terminated"]["reason"] = reason
        self.state.state = ended
        self.state.ready = self.state.started = False
        self.up.clear()
        self.context.changed()

    async def _attend(self, process: Process, launch: Launch) -> None:
        """The postStart hook, then the probes, while the process lives."""
        target = probes.Target(self.context.address, probes.named_ports(self.spec), process, launch)
        hook = self.spec.get("lifecycle", {}).get("postStart")
        if hook:
            problem = await run_hook(hook, target, self.context, self.context.grace)
            if problem:
                self.context.event("FailedPostStartHook", problem)
                await self._kill(f"PostStartHookError: {problem}", self.context.grace)
                return
        if "startupProbe" in self.spec and not await self._startup(target):
            return
        self.state.started = True
        self.state.ready = "readinessProbe" not in self.spec
        self.up.set()
        self.context.changed()
        await asyncio.gather(self._liveness(target), self._readiness(target))

    async def _startup(self, target: probes.Target) -> bool:
        """Whether the container came up; it is killed otherwise."""
        probe = self.spec["startupProbe"]
        verdict = probes.Verdict(probes.Timing.of(probe), good=False)
        await asyncio.sleep(verdict.timing.initial_delay)
        while True:
            verdict = verdict.after(await self._asked("Startup", probe, target))
            if verdict.good:
                return True
            if verdict.failed:
                await self._probe_kill("startup", probe)
                return False
            await asyncio.sleep(verdict.timing.period)

    async def _liveness(self, target: probes.Target) -> None:
        probe = self.spec.get("livenessProbe")
        if probe is None:
            return
        verdict = probes.Verdict(probes.Timing.of(probe), good=True)
        await asyncio.sleep(verdict.timing.initial_delay)
        while not self._stopping:
            verdict = verdict.after(await self._asked("Liveness", probe, target))
            if not verdict.good:
                await self._probe_kill("liveness", probe)
                return
            await asyncio.sleep(verdict.timing.period)

    async def _readiness(self, target: probes.Target) -> None:
        probe = self.spec.get("readinessProbe")
        if probe is None:
            return
        verdict = probes.Verdict(probes.Timing.of(probe), good=False)
        await asyncio.sleep(verdict.timing.initial_delay)
        while True:
            verdict = verdict.after(await self._asked("Readiness", probe, target))
            if verdict.good != self.state.ready:
                self.state.ready = verdict.good
                self.context.changed()
            await asyncio.sleep(verdict.timing.period)

    async def _asked(self, kind: str, probe: Object, target: probes.Target) -> bool:
        problem = await probes.check(probe, target, self.context.shared.session)
        if problem is not None and not self._stopping:
            self.context.event("Unhealthy", f"{kind} probe failed: {problem}")
        return problem is None

    async def _probe_kill(self, kind: str, probe: Object) -> None:
        if self._stopping:
            return
        grace = float(probe.get("terminationGracePeriodSeconds") or self.context.grace)
        await self._kill(f"Container {self.name} failed {kind} probe, will be restarted", grace)

    async def _kill(self, why: str, grace: float) -> None:
        process, launch = self.process, self.launch
        if process is None or launch is None:
            return
        self.context.event("Killing", why, "Normal")
        self._message = why
        try:
            await terminate(process, launch, self.spec, self.context, Deadline(grace))
        finally:
            process.send(signal.SIGKILL)
