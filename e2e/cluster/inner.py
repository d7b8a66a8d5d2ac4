"""Process 1 of a sandbox: sets up its network, starts the components, dies with any of them.

When this process ends, the kernel ends every other one of the sandbox. It ends when a component
does, when its run directory goes, and, until the starter lets go of it, with the starter.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from e2e.cluster import addresses, api, layout, namespaces, proxy
from e2e.cluster.components import Component, stages
from e2e.cluster.layout import Layout, Outcome, Plan
from e2e.problem import Problem, sentence

POLL_SECONDS = 0.03
READY_SECONDS = 120.0
WATCH_SECONDS = 1.0
DETACH = b"detach"
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


class Supervisor:
    """The components that run, and how each child process of the sandbox ended."""

    def __init__(self, files: Layout) -> None:
        self._files = files
        self._running: dict[int, Component] = {}
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def start(self, component: Component) -> None:
        """Start one component with its log."""
        with self._files.log(component.name).open("ab") as log:
            process = subprocess.Popen(
                component.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        # Reaped by `reap`, never by the object.
        process.returncode = 0
        self._running[process.pid] = component

    def reap(self) -> None:
        """Collect every child that has ended: components, and orphans of pods."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            component = self._running.pop(pid, None)
            if component:
                self.end(self._obituary(component, os.waitstatus_to_exitcode(status)))

    def end(self, why: str) -> None:
        """The sandbox is over; the first reason stands."""
        if not self.ended.done():
            self.ended.set_result(why)

    def _obituary(self, component: Component, code: int) -> str:
        log = self._files.log(component.name)
        if code < 0:
            how, hint = f"was killed by {signal.Signals(-code).name}", f"its log is {log}"
        else:
            said = self._files.tail(component.name)
            how, hint = f"ended with status {code}", f"the end of {log} says: {said}"
        return f"{component.name} {how}, so the local cluster has stopped; {hint}"


def set_up_network() -> None:
    """Give the sandbox its address and the way to the Service range."""
    gateway = addresses.GATEWAY
    for command in (
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{gateway}/32", "dev", "lo"),
        ("ip", "route", "add", addresses.SERVICE_CIDR, "dev", "lo", "src", gateway),
    ):
        namespaces.run_with(command, os.environ)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


async def until(what: str, true: Callable[[], Awaitable[bool]]) -> None:
    """Poll `true` until it is; `what` names it where it takes too long."""
    deadline = time.monotonic() + READY_SECONDS
    while not await true():
        if time.monotonic() > deadline:
            raise Problem(f"{what} was not ready after {READY_SECONDS:.0f} s")
        await asyncio.sleep(POLL_SECONDS)


class Start:
    """The way from nothing to a ready cluster."""

    def __init__(self, plan: Plan, files: Layout, supervisor: Supervisor) -> None:
        self._plan, self._files, self._supervisor = plan, files, supervisor
        self._access = api.Access.of(files.kubeconfig, direct=True)

    async def run(self) -> None:
        """Start every stage and wait for what pods need."""
        for stage in stages(self._plan, self._files):
            for component in stage:
                self._say("starting", component.name)
                self._supervisor.start(component)
            for component in stage:
                await self._answering(component)
        self._say("starting", "the ServiceAccount `default`")
        await until("the ServiceAccount `default`", self._has_account)
        self._say("starting", "the nodes")
        await until("the nodes", self._has_nodes)
        self._say("ready", "ready")

    def _say(self, state: str, message: str) -> None:
        layout.write(self._files.outcome, Outcome(state, message))

    async def _answering(self, component: Component) -> None:
        url = component.health
        if url is None:
            return

        async def healthy() -> bool:
            return await asyncio.to_thread(api.ask, self._access, url) is not None

        await until(component.name, healthy)

    async def _has_account(self) -> bool:
        return await asyncio.to_thread(api.get, self._access, DEFAULT_ACCOUNT) is not None

    async def _has_nodes(self) -> bool:
        names = layout.node_names(self._files.nodes)
        return api.has_exactly(await asyncio.to_thread(api.get, self._access, api.NODES), names)


async def live(plan: Plan, files: Layout) -> str:
    """Run the cluster; returns why it is over."""
    supervisor = Supervisor(files)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, supervisor.reap)

    def starter_spoke() -> None:
        loop.remove_reader(plan.lifeline)
        if os.read(plan.lifeline, len(DETACH)) != DETACH:
            supervisor.end("the process that had started the cluster has ended")

    loop.add_reader(plan.lifeline, starter_spoke)
    inside = socket.create_server(("127.0.0.1", plan.port))
    servers = await proxy.serve((socket.socket(fileno=plan.listener), inside))
    tasks = [
        asyncio.create_task(Start(plan, files, supervisor).run()),
        asyncio.create_task(_watch_folder(plan, files, supervisor)),
    ]
    tasks[0].add_done_callback(lambda task: _report(task, supervisor))
    why = await supervisor.ended
    for server in servers:
        server.close()
    return why


def _report(task: "asyncio.Task[None]", supervisor: Supervisor) -> None:
    error = None if task.cancelled() else task.exception()
    if error:
        supervisor.end(sentence(error))


async def _watch_folder(plan: Plan, files: Layout, supervisor: Supervisor) -> None:
    """End the sandbox once its run directory is gone: nobody could find it any more."""
    while layout.is_run(files.plan, plan.run):  # noqa: ASYNC110 - a folder gives no event
        await asyncio.sleep(WATCH_SECONDS)
    supervisor.end(f"the run directory {files.run_dir} is gone")


def main(run_dir: str) -> None:
    """Process 1: never returns before the cluster is over."""
    files = Layout(Path(run_dir))
    plan = layout.read_plan(files.plan)
    try:
        set_up_network()
        # Not asyncio.run: it would wait for threads that still ask a dead component.
        why = asyncio.new_event_loop().run_until_complete(live(plan, files))
    except (Problem, OSError) as error:
        why = sentence(error)
    # A full disk takes no last word; the host's side sees for itself that it is full.
    with suppress(OSError):
        if layout.is_run(files.plan, plan.run):
            layout.write(files.outcome, Outcome("failed", why))
    # The other processes are ended by the kernel; nothing here is worth waiting for.
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
