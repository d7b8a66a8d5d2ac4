"""A second kube-scheduler with an extender beside it, as bare processes inside a local cluster.

What the chart runs in a pod, without the pod: tests stop, kill and replace either of the two in
milliseconds. Its pods name `SCHEDULER`.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e import paths
from e2e.cluster import settings
from e2e.cluster.api import Access
from e2e.cluster.handle import Cluster
from e2e.cluster.layout import Layout
from e2e.poll import until

SCHEDULER = "tenantry-scheduler"
VERBS_PORT, HEALTH_PORT, SCHEDULER_PORT = 8899, 8898, 10359


@dataclass
class SecondScheduler:
    """The two processes; `folder` takes their settings and logs."""

    cluster: Cluster
    folder: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        access = Access.of(self.cluster.kubeconfig, direct=True)
        admin = settings.kubeconfig(str(access.ca), access.token)
        self.kubeconfig.write_text(json.dumps(admin))
        (self.folder / "scheduler.json").write_text(json.dumps(self._configuration()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._running):
            self.kill(name)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def start_scheduler(self) -> None:
        layout = Layout(self.cluster.run_dir)
        plan = json.loads(layout.plan.read_text())
        self._start(
            "scheduler",
            f"{plan['bin_dir']}/kube-scheduler",
            f"--config={self.folder / 'scheduler.json'}",
            f"--secure-port={SCHEDULER_PORT}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder}",
            "--v=2",
        )

    def start_extender(self, *flags: str, ready: bool = True) -> None:
        """The real one. With `ready`, return once its books are complete."""
        self._start(
            "extender",
            sys.executable,
            "-m",
            "tenantry_extender.main",
            f"--verbs-port={VERBS_PORT}",
            "--host=127.0.0.1",
            f"--port={HEALTH_PORT}",
            f"--kubeconfig={self.kubeconfig}",
            *flags,
        )
        if ready:
            until("the extender ready", lambda: self.health("readyz") == "ok", 30)

    def start_passthrough(self) -> None:
        """What lets everything through, in the extender's place."""
        self._start(
            "extender",
            sys.executable,
            "-m",
            "e2e.passthrough",
            f"--port={VERBS_PORT}",
            f"--kubeconfig={self.kubeconfig}",
        )

    def kill(self, name: str) -> None:
        """SIGKILL for `scheduler` or `extender`, with everything that it has started."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def health(self, path: str) -> str:
        """The answer on the extender's own port; "" while there is none."""
        return self._curl(f"http://127.0.0.1:{HEALTH_PORT}/{path}").strip()

    def ask(self, verb: str, message: object) -> Any:
        """Ask the extender what kube-scheduler would ask."""
        url = f"http://127.0.0.1:{VERBS_PORT}/tenantry/{verb}"
        return json.loads(self._curl(url, "--data-binary", json.dumps(message)))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = self.cluster.inside(
                argv, stdout=log, stderr=log, cwd=paths.checkout()
            )

    def _curl(self, url: str, *flags: str) -> str:
        command = ["curl", "--silent", "--max-time", "10", *flags, url]
        return self.cluster.run_inside(command, check=False).stdout

    def _configuration(self) -> dict[str, Any]:
        account = Layout(self.cluster.run_dir).pki / "scheduler.kubeconfig"
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(account)},
            # Equal for all, so that who came first is tried first again.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": SCHEDULER}],
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{VERBS_PORT}/tenantry",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "bindVerb": "bind",
                    "weight": 1,
                    "enableHTTPS": False,
                    "httpTimeout": "5s",
                    "nodeCacheCapable": True,
                    "ignorable": False,
                }
            ],
        }
