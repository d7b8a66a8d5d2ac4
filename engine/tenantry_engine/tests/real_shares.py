"""What two tenants that always wait get of one real engine, phase by phase, counted from outside.

The engine is `tenantry serve` with the model whose steps, and not HTTP, are the bottleneck. The
policy file is edited while it serves. Tokens are counted by the clients as they arrive; GPU seconds
and waiting requests are what the engine process shows on its metrics port.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e import paths
from e2e.load import Load, command
from e2e.poll import until
from tenantry_engine.tests.policies import a_text
from tenantry_engine.tests.server import GATEWAY, Server, tenantry_serve

SAMPLED = 0.5
"""Seconds between two looks at who waits; the engine tells it anew once a second."""
FLAGS = ("--num-gpu-blocks-override=400",)
"""12,800 tokens of KV: nobody is preempted, so that a share lost is the scheduler's doing."""
IDENTITY = {"trustedPeers": [f"{GATEWAY}/32"]}


@dataclass(frozen=True)
class Window:
    """A stretch of a load, by tenant: output tokens that the clients got, GPU seconds that were
    attributed, the fewest requests seen waiting. And CPU seconds of the process that runs the
    model."""

    cpu_seconds: float
    tokens: Mapping[str, int]
    gpu_seconds: Mapping[str, float]
    fewest_waiting: Mapping[str, float]

    def rate(self, tenant: str) -> float:
        """Output tokens for a CPU second of the model."""
        return self.tokens[tenant] / self.cpu_seconds

    @property
    def full(self) -> bool:
        """Whether every tenant was seen waiting at every look."""
        return min(self.fewest_waiting.values()) > 0

    @property
    def token_ratio(self) -> float:
        """Gold's over free's."""
        return self.tokens["gold"] / self.tokens["free"]

    @property
    def gpu_ratio(self) -> float:
        """Gold's over free's."""
        return self.gpu_seconds["gold"] / self.gpu_seconds["free"]


class Engine:
    """A server and the policy file that it follows; gold's weight is 3, free's 1."""

    def __init__(self, server: Server, policy: Path) -> None:
        self.server = server
        self._policy = policy
        self._loads = 0

    def declare(self, mode: str) -> None:
        """Change the policy as an editor does, and wait until the engine follows it."""
        write(self._policy, mode)
        until(f"mode {mode} in the engine", lambda: self.mode() == mode, 15)

    def mode(self) -> str:
        """The mode in force."""
        figures = self.server.figures(self.server.metrics_port)
        (labels,) = [dict(found) for name, found in figures if name == "tenantry_policy_info"]
        return labels["mode"]

    @contextmanager
    def load(self, tenants: str, connections: int) -> Iterator[Load]:
        """These tenants, each with so many connections; prompts that no load had before."""
        self._loads += 1
        options = (f"--connections={connections}", f"--seed={self._loads}", "--seconds=900")
        argv = command(f"http://{GATEWAY}:{self.server.port}", tenants, *options)
        process = subprocess.Popen(  # noqa: S603 - ours
            argv, cwd=paths.checkout(), stdout=subprocess.PIPE, text=True
        )
        load = Load(process)
        try:
            yield load
        finally:
            load.stop()

    def measure(self, load: Load, tenants: Sequence[str], warm_up: float, seconds: float) -> Window:
        """What the tenants of a load get in so many seconds, after `warm_up` of them."""
        first = load.until(load.next().t + warm_up)
        before, cpu = self._gpu_seconds(tenants), self.server.model_cpu()
        fewest = dict.fromkeys(tenants, float("inf"))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for tenant in tenants:
                waiting = self.server.engine("tenantry_waiting_requests", tenant=tenant) or 0.0
                fewest[tenant] = min(fewest[tenant], waiting)
            time.sleep(SAMPLED)
        last, after = load.next(), self._gpu_seconds(tenants)
        return Window(
            cpu_seconds=self.server.model_cpu() - cpu,
            tokens={t: last.tokens[t] - first.tokens[t] for t in tenants},
            gpu_seconds={t: after[t] - before[t] for t in tenants},
            fewest_waiting=fewest,
        )

    def _gpu_seconds(self, tenants: Sequence[str]) -> Mapping[str, float]:
        name = "tenantry_gpu_seconds_total"
        return {each: self.server.engine(name, tenant=each) or 0.0 for each in tenants}


def write(policy: Path, mode: str) -> None:
    """The policy file: all of it at once, so that nobody reads half."""
    fresh = policy.with_suffix(".new")
    fresh.write_text(a_text(identity=IDENTITY, scheduling={"mode": mode}))
    fresh.rename(policy)


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """A fresh engine that serves; afterwards nothing of it is left."""
    policy = folder / "policy.json"
    write(policy, "Enforce")
    path = [str(paths.checkout() / "e2e/nap"), os.environ.get("PYTHONPATH", "")]
    # Without the nap vLLM's busy waiting takes the core that the clients need.
    environ = {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    with Server(folder, tenantry_serve(policy), environ, *FLAGS, kind="small") as server:
        yield Engine(server.ready(), policy)
