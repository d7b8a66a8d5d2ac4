"""`Cluster`: a running local cluster, for tests, the demo and the command line."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e import fetch, paths, tools
from e2e.cluster import api, namespaces, pods, sandbox
from e2e.cluster.layout import Layout
from e2e.cluster.nodes import NodeSpec, write_nodes
from e2e.cluster.sandbox import Identity, Say, Starting
from e2e.problem import Problem

NODES_SECONDS = 60.0
POLL_SECONDS = 0.05


class Cluster:
    """A cluster and the ways to it.

    One that `start` made ends with `stop`, with its `with` block, or with the Python process
    that made it; after `detach` only with `stop`.
    """

    def __init__(self, kubeconfig: Path, files: Layout | None, identity: Identity | None) -> None:
        self.kubeconfig = kubeconfig
        self._files, self._identity = files, identity
        self._starting: Starting | None = None

    @classmethod
    def start(
        cls,
        name: str,
        nodes: Sequence[NodeSpec],
        run_root: Path | None = None,
        say: Say = fetch.say,
    ) -> Self:
        """A new cluster with these nodes, ready for pods; its files lie in `run_root`/`name`.

        Raises `Problem` where the machine lacks something, a cluster of this name runs already,
        or a component fails; then no process is left.
        """
        root = run_root or paths.clusters()
        with fetch.lock(root / f".{name}.lock", f"waiting for another start of {name}"):
            running = sandbox.read_identity(Layout(root / name))
            if running is not None and running.alive:
                raise Problem(f"a cluster named {name} runs already in {root / name}; stop it")
            files = sandbox.fresh(root / name)
            write_nodes(files.nodes, nodes)
            starting = Starting(files, say)
            try:
                starting.begin()
                identity = starting.wait()
            except BaseException:
                starting.end()
                sandbox.clean(files)
                raise
        cluster = cls(files.kubeconfig, files, identity)
        cluster._starting = starting
        return cluster

    @classmethod
    def attach(cls, name: str, run_root: Path | None = None) -> Self | None:
        """The running cluster of this name, or None."""
        files = Layout((run_root or paths.clusters()) / name)
        identity = sandbox.read_identity(files)
        if identity is None or not identity.alive:
            return None
        return cls(files.kubeconfig, files, identity)

    @classmethod
    def borrowed(cls, kubeconfig: Path) -> Self:
        """A cluster of somebody else's, reached by its kubeconfig alone; `stop` leaves it."""
        return cls(kubeconfig, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def run_dir(self) -> Path:
        """Its run directory, with a log of every component."""
        return self._own().run_dir

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: JSON lines of audit.k8s.io/v1 Event, level Metadata."""
        return self._own().audit_log

    @property
    def init_pid(self) -> int:
        """The host's id of the sandbox's process 1."""
        self._own()
        assert self._identity is not None
        return self._identity.init.pid

    def check(self) -> None:
        """Raise the reason as a `Problem` when the cluster has stopped by itself."""
        if self._files is None or self._identity is None or self._identity.alive:
            return
        if not self._files.state.exists():
            raise Problem(f"the local cluster in {self._files.run_dir} has been stopped")
        raise Problem(sandbox.obituary(self._files))

    def detach(self) -> None:
        """Let the cluster outlive this process."""
        if self._starting is not None:
            self._starting.release()

    def stop(self) -> None:
        """End every process of the cluster and remove its secrets; logs stay. Idempotent."""
        if self._files is None or self._identity is None:
            return
        if self._starting is not None:
            self._starting.end()
        sandbox.end(self._identity)
        sandbox.clean(self._files)

    def set_nodes(self, nodes: Sequence[NodeSpec], *, wait: bool = True) -> None:
        """Have exactly these nodes; with `wait`, return once they are ready."""
        write_nodes(self._own().nodes, nodes)
        if wait:
            self.wait_for_nodes([node.name for node in nodes])

    def wait_for_nodes(self, names: Sequence[str], seconds: float = NODES_SECONDS) -> None:
        """Wait until exactly these nodes exist and are ready."""
        deadline = time.monotonic() + seconds
        while not api.has_exactly(self.get(api.NODES), names):
            self.check()
            if time.monotonic() > deadline:
                tail = self._own().tail("agent")
                raise Problem(f"nodes {list(names)} not ready after {seconds:.0f} s; agent: {tail}")
            time.sleep(POLL_SECONDS)

    def containers(self, namespace: str, pod: str) -> dict[str, int]:
        """Container -> the host's id of its first process, for those of the pod that run now."""
        return pods.containers(pods.seen(), self.init_pid, self.run_dir, namespace, pod)

    def processes(self, namespace: str, pod: str) -> list[int]:
        """The host's ids of all processes of a pod; none when nothing of it runs."""
        table = pods.seen()
        first = pods.containers(table, self.init_pid, self.run_dir, namespace, pod).values()
        return sorted({pid for root in first for pid in pods.below(table, root)})

    def get(self, path: str) -> Any:
        """The JSON that the API server has at `path`, or None where it answers otherwise."""
        return api.get(api.Access.of(self.kubeconfig), path)

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """The standard output of kubectl; with `check`, a failure raises `Problem`.

        Without `check` the answer is standard output and standard error together.
        """
        return self._tool(tools.kubectl(), args, stdin, check)

    def helm(self, *args: str, check: bool = True) -> str:
        """The standard output of helm; as `kubectl`."""
        return self._tool(tools.helm(), args, None, check)

    def inside(self, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a command inside the sandbox, as `subprocess.Popen(argv, **options)` would.

        It sees the cluster's network (pod addresses, ClusterIPs) and `KUBECONFIG`, runs in `cwd`
        (default: this process' folder), and dies with the object's process.
        """
        self.check()
        folder = Path(options.pop("cwd", None) or Path.cwd())
        command, env = self.entry(argv, options.pop("env", None) or os.environ, folder)
        return subprocess.Popen(command, env=env, **options)

    def entry(
        self, argv: Sequence[str], base: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The command and environment that run `argv` inside, in `folder`."""
        env = namespaces.environment(base)
        folders = (paths.venv() / "bin", tools.helm().parent)
        env["PATH"] = ":".join([*(str(folder) for folder in folders), env["PATH"]])
        env |= self._tool_environment()
        return [*namespaces.enter(self.init_pid, folder), *argv], env

    def run_inside(
        self, argv: Sequence[str], *, check: bool = True, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside to its end, with its output as text."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        timeout = options.pop("timeout", None)
        with self.inside(argv, **options) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        if check and process.returncode:
            raise Problem(f"`{' '.join(argv)}` ended with {process.returncode}: {stderr}")
        return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)

    def _tool_environment(self) -> dict[str, str]:
        env = {"KUBECONFIG": str(self.kubeconfig)}
        if self._files is not None:
            env["KUBECACHEDIR"] = str(self._files.kubectl_cache)
        return env

    def _own(self) -> Layout:
        if self._files is None:
            raise Problem(
                "the cluster that KUBECONFIG names has no sandbox, which is needed here; unset "
                "KUBECONFIG to use the local one"
            )
        return self._files

    def _tool(self, tool: Path, args: Sequence[str], stdin: str | None, check: bool) -> str:
        self.check()
        done = subprocess.run(
            [str(tool), *args],
            env={**os.environ, **self._tool_environment()},
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            check=False,
        )
        if not check:
            return done.stdout + done.stderr
        if done.returncode:
            self.check()
            raise Problem(f"`{tool.name} {' '.join(args)}`: {done.stderr.strip()}")
        return done.stdout
