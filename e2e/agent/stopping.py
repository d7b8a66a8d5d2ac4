"""How a container is asked to end, and made to."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

from e2e.agent import probes

if TYPE_CHECKING:
    from e2e.agent.container import Launch, Process
    from e2e.agent.context import PodContext

Object = dict[str, Any]
LOOK_SECONDS = 0.2
# A kubelet leaves a container this long even when its hook has used up the grace period.
LEAST_SECONDS = 2.0


class Deadline:
    """When patience ends; a second deletion may bring it nearer."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def shorten(self, seconds: float) -> None:
        """Not later than in `seconds`."""
        self._at = min(self._at, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(self._at - time.monotonic(), 0.0)


async def terminate(
    process: Process, launch: Launch, spec: Object, context: PodContext, deadline: Deadline
) -> None:
    """preStop, SIGTERM, and SIGKILL at the deadline; returns when the process has ended."""
    hook = spec.get("lifecycle", {}).get("preStop")
    immediate = deadline.left <= 0
    if hook and not immediate:
        target = probes.Target(context.address, probes.named_ports(spec), process, launch)
        problem = await run_hook(hook, target, context, deadline.left)
        if problem:
            context.event("FailedPreStopHook", problem)
        if deadline.left <= 0:
            deadline = Deadline(LEAST_SECONDS)
    number = getattr(signal, str(spec.get("lifecycle", {}).get("stopSignal", "SIGTERM")))
    if not immediate:
        process.send(number)
    while process.alive and deadline.left > 0:
        await process.ended_within(min(LOOK_SECONDS, deadline.left))
    process.send(signal.SIGKILL)
    await process.wait()


async def run_hook(
    hook: Object, target: probes.Target, context: PodContext, seconds: float
) -> str | None:
    """Run a lifecycle hook for at most `seconds`; None is good, a text says what was wrong."""
    if "sleep" in hook:
        await target.process.ended_within(min(float(hook["sleep"]["seconds"]), seconds))
        return None
    if "exec" in hook:
        return await probes.run_command(hook["exec"]["command"], target, seconds)
    if "httpGet" in hook:
        try:
            session = context.shared.session
            return await asyncio.wait_for(
                probes.http_get(hook["httpGet"], target, session, seconds), seconds
            )
        except (TimeoutError, KeyError) as error:
            return f"hook failed: {error!r}"
    return "the node agent does not offer this kind of hook"
