"""Probes: what is asked, and what follows from the answers.

`Verdict` counts answers against the thresholds and is pure. `check` asks once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from e2e.agent.container import StartError, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from e2e.agent.container import Launch, Process

Object = dict[str, Any]


@dataclass(frozen=True)
class Timing:
    """A probe's numbers with Kubernetes' defaults; times in seconds."""

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3

    @classmethod
    def of(cls, probe: Object) -> Timing:
        """From a manifest."""
        return cls(
            float(probe.get("initialDelaySeconds") or 0),
            float(probe.get("periodSeconds") or 10),
            float(probe.get("timeoutSeconds") or 1),
            int(probe.get("successThreshold") or 1),
            int(probe.get("failureThreshold") or 3),
        )


@dataclass(frozen=True)
class Verdict:
    """The state of a probe: `good` changes only when a threshold of equal answers is reached.

    Readiness and startup begin bad, liveness begins good. run: equal answers in a row.
    """

    timing: Timing
    good: bool
    last: bool | None = None
    run: int = 0

    def after(self, answer: bool) -> Verdict:
        """The state after one more answer."""
        run = self.run + 1 if answer == self.last else 1
        needed = self.timing.success_threshold if answer else self.timing.failure_threshold
        good = answer if run >= needed else self.good
        return Verdict(self.timing, good, answer, run)

    @property
    def failed(self) -> bool:
        """Whether the last `failure_threshold` answers were all bad."""
        return self.last is False and self.run >= self.timing.failure_threshold


@dataclass(frozen=True)
class Target:
    """Where a probe of one container goes."""

    address: str
    ports: Mapping[str, int]
    process: Process
    launch: Launch

    def port(self, named: object) -> int:
        """A port by number or by name; KeyError where the container has none of that name."""
        text = str(named)
        return int(text) if text.isdigit() else self.ports[text]


def named_ports(container: Object) -> dict[str, int]:
    """name -> port of a container."""
    return {
        port["name"]: int(port["containerPort"])
        for port in container.get("ports", [])
        if port.get("name")
    }


async def check(probe: Object, target: Target, session: aiohttp.ClientSession) -> str | None:
    """Ask once; None is good, a text says what was wrong."""
    seconds = Timing.of(probe).timeout
    try:
        if "httpGet" in probe:
            return await http_get(probe["httpGet"], target, session, seconds)
        if "tcpSocket" in probe:
            return await _tcp(probe["tcpSocket"], target, seconds)
        if "exec" in probe:
            return await run_command(probe["exec"]["command"], target, seconds)
    except KeyError as error:
        return f"no port named {error}"
    return "the node agent does not offer this kind of probe"


async def http_get(
    action: Object, target: Target, session: aiohttp.ClientSession, seconds: float
) -> str | None:
    """GET; any status from 200 to 399 is good, certificates are not looked at."""
    scheme = str(action.get("scheme") or "HTTP").lower()
    host = action.get("host") or target.address
    path = str(action.get("path") or "/")
    url = f"{scheme}://{host}:{target.port(action['port'])}/{path.lstrip('/')}"
    headers = {"User-Agent": "kube-probe/1.36"}
    headers |= {entry["name"]: entry["value"] for entry in action.get("httpHeaders", [])}
    limit = aiohttp.ClientTimeout(total=seconds)
    try:
        async with session.get(
            url, headers=headers, timeout=limit, allow_redirects=False, ssl=False
        ) as answer:
            if 200 <= answer.status < 400:
                return None
            return f"HTTP probe failed with statuscode: {answer.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f'Get "{url}": {error or "timeout"}'


async def _tcp(action: Object, target: Target, seconds: float) -> str | None:
    host, port = action.get("host") or target.address, target.port(action["port"])
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except (OSError, TimeoutError) as error:
        return f"dial tcp {host}:{port}: {error or 'timeout'}"
    return None


async def run_command(command: Sequence[str], target: Target, seconds: float) -> str | None:
    """Run a command in the container; exit status 0 is good."""
    try:
        code, output = await output_of(target.process, target.launch, command, seconds)
    except (StartError, TimeoutError) as error:
        return str(error)
    return None if code == 0 else (output.strip() or f"exit status {code}")
