"""Where each file of one run of a cluster lies, and what the sandbox is told at its start."""

import json
from dataclasses import asdict, dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any

LINE_WIDTH = 240
LINE_BYTES = 2000
"""Log lines are taken to be shorter when the end of a log is looked for."""

LOGS = (
    "sandbox",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "agent",
)


@dataclass(frozen=True)
class Layout:
    """The files under one run directory (mode 0700: it holds the admin's token)."""

    run_dir: Path

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.run_dir / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig; it works outside and inside the sandbox."""
        return self.run_dir / "kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """What kubectl remembers of this API server; by default it would lie in the home folder,
        or in the current one where there is no home, and outlive the cluster."""
        return self.run_dir / "kubectl"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON object a line."""
        return self.run_dir / "audit.log"

    @property
    def nodes(self) -> Path:
        """The nodes that there should be; the agent follows it."""
        return self.run_dir / "nodes.json"

    @property
    def agent(self) -> Path:
        """The agent's configuration."""
        return self.run_dir / "agent.json"

    @property
    def plan(self) -> Path:
        """What process 1 of the sandbox is told: a `Plan`."""
        return self.run_dir / "plan.json"

    @property
    def outcome(self) -> Path:
        """What process 1 says about itself: an `Outcome`."""
        return self.run_dir / "outcome.json"

    @property
    def state(self) -> Path:
        """Which processes are this cluster; without it the sandbox stops itself."""
        return self.run_dir / "state.json"

    def log(self, component: str) -> Path:
        """The log of one of `LOGS`."""
        return self.run_dir / f"{component}.log"

    def last_lines(self, component: str, count: int) -> list[str]:
        """The last lines of a component's log, long ones cut."""
        try:
            with self.log(component).open("rb") as log:
                log.seek(0, SEEK_END)
                log.seek(max(0, log.tell() - count * LINE_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        lines = text.strip().splitlines()[-count:]
        return [line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}..." for line in lines]

    def tail(self, component: str) -> str:
        """The last two lines of a component's log, to end a sentence with."""
        return " | ".join(self.last_lines(component, 2)) or "nothing"


@dataclass(frozen=True)
class Plan:
    """What process 1 of the sandbox is told."""

    run: str
    """Names this run: a run directory made anew belongs to another one."""
    run_dir: str
    bin_dir: str
    listener: int
    """File descriptor of the proxy's listening socket in the host's network."""
    port: int
    """The port of that socket; the proxy listens on it inside as well."""
    lifeline: int
    """File descriptor of the pipe whose end means that the starter has died."""
    agent: tuple[str, ...]
    """The agent's command."""


@dataclass(frozen=True)
class Outcome:
    """How far the sandbox is: `starting` (message: the stage), `ready` or `failed` (why)."""

    state: str
    message: str


def write_json(path: Path, value: Any) -> None:
    """Write `value` all or nothing, readable by the owner alone."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(json.dumps(value, indent=1))
    scratch.chmod(0o600)
    scratch.rename(path)


def write(path: Path, value: Plan | Outcome) -> None:
    """Write one of the dataclasses of this module as JSON."""
    write_json(path, asdict(value))


def read_outcome(path: Path) -> Outcome:
    """The sandbox's last word; `starting` before its first."""
    try:
        return Outcome(**json.loads(path.read_text()))
    except FileNotFoundError:
        return Outcome("starting", "the sandbox")


def read_plan(path: Path) -> Plan:
    """The plan that the host's side has written."""
    body: dict[str, Any] = json.loads(path.read_text())
    return Plan(**{**body, "agent": tuple(body["agent"])})


def is_run(path: Path, run: str) -> bool:
    """Whether the plan at `path` is that of this run."""
    try:
        return read_plan(path).run == run
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def node_names(path: Path) -> list[str]:
    """The names in the file that the agent follows."""
    return [node["name"] for node in json.loads(path.read_text())]
