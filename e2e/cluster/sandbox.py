"""The host's side of one sandbox: start it, find it again, end it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e import build, fetch, paths
from e2e.cluster import certificates, layout, namespaces, processes, settings
from e2e.cluster.inner import DETACH
from e2e.cluster.layout import Layout, Plan
from e2e.cluster.processes import Process
from e2e.problem import Problem, sentence

POLL_SECONDS = 0.03
START_SECONDS = 240.0
ROOM_MB = 1_000
FULL_BYTES = 1_000_000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Identity:
    """The processes of a running sandbox: `unshare`, and process 1 by its id on the host."""

    outer: Process
    init: Process
    boot: str

    @property
    def alive(self) -> bool:
        """Whether it is this boot's and still runs."""
        return self.boot == processes.boot() and self.init.alive


def read_identity(files: Layout) -> Identity | None:
    """The sandbox that a run directory belongs to, running or not."""
    try:
        body: Mapping[str, object] = json.loads(files.state.read_text())
        outer, init = (Process(**body[key]) for key in ("outer", "init"))  # type: ignore[arg-type]
        return Identity(outer, init, str(body["boot"]))
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        return None


class Starting:
    """A sandbox on its way up; leaving the block without `release` ends it."""

    def __init__(self, files: Layout, say: Say) -> None:
        self._files, self._say = files, say
        self._lifeline: int | None = None
        self.outer: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Write the run directory's files and start process 1."""
        env = namespaces.environment(os.environ)
        namespaces.require(env)
        bin_dir = str(build.control_plane())
        fetch.need_room(self._files.run_dir, ROOM_MB, "a local cluster")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            certificates.write_all(self._files.pki)
            settings.write_all(self._files, bin_dir, port, namespaces.rootless())
            self._spawn(listener.fileno(), port, bin_dir, env)

    def _spawn(self, listener: int, port: int, bin_dir: str, env: Mapping[str, str]) -> None:
        inside, self._lifeline = os.pipe()
        agent = (sys.executable, "-m", "e2e.agent.main", "--config", str(self._files.agent))
        run = secrets.token_hex(8)
        plan = Plan(run, str(self._files.run_dir), bin_dir, listener, port, inside, agent)
        layout.write(self._files.plan, plan)
        command = [*namespaces.create(), sys.executable, "-m", "e2e.cluster.inner"]
        try:
            with self._files.log("sandbox").open("wb") as log:
                self.outer = subprocess.Popen(
                    [*command, str(self._files.run_dir)],
                    cwd=paths.checkout(),
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(listener, inside),
                    start_new_session=True,
                )
        finally:
            os.close(inside)

    def wait(self) -> Identity:
        """Wait until it is ready, saying each stage; a `Problem` where it fails."""
        begun, said, deadline = time.monotonic(), "", time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            outcome = layout.read_outcome(self._files.outcome)
            if outcome.state == "failed":
                raise Problem(outcome.message)
            if outcome.state == "ready":
                self._say(f"  {time.monotonic() - begun:5.1f} s  ready")
                return self._identify()
            if outcome.message != said:
                said = outcome.message
                self._say(f"  {time.monotonic() - begun:5.1f} s  {said}")
            if self.outer is None or self.outer.poll() is not None:
                raise Problem(f"the sandbox ended while it was starting: {obituary(self._files)}")
            time.sleep(POLL_SECONDS)
        raise Problem(
            f"the local cluster was not ready after {START_SECONDS:.0f} s (waiting for {said}); "
            f"its logs lie in {self._files.run_dir}"
        )

    def _identify(self) -> Identity:
        assert self.outer is not None
        outer, init = processes.find(self.outer.pid), processes.child(self.outer.pid)
        if outer is None or init is None:
            raise Problem(f"the sandbox has just ended: {self._files.tail('sandbox')}")
        identity = Identity(outer, init, processes.boot())
        layout.write_json(self._files.state, asdict(identity))
        return identity

    def release(self) -> None:
        """Let the sandbox outlive this process."""
        if self._lifeline is not None:
            os.write(self._lifeline, DETACH)
            os.close(self._lifeline)
            self._lifeline = None

    def end(self) -> None:
        """End what has been started; afterwards no process of it is left."""
        if self.outer is not None:
            init = processes.child(self.outer.pid)
            self.outer.kill()
            self.outer.wait()
            if init is not None:
                _gone(init)
            self.outer = None
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def obituary(files: Layout) -> str:
    """Why a sandbox that nobody stopped is no more."""
    outcome = layout.read_outcome(files.outcome)
    if outcome.state == "failed":
        return outcome.message
    if shutil.disk_usage(files.run_dir).free < FULL_BYTES:
        return f"the disk of {files.run_dir} is full, so the local cluster has stopped; make room"
    if outcome.state == "starting":
        return f"it did not get beyond {outcome.message}; {files.tail('sandbox')}"
    return "the local cluster was killed, or the machine has been restarted since"


def end(identity: Identity) -> None:
    """End a running sandbox that another process may have started."""
    if identity.boot == processes.boot():
        processes.kill(identity.outer)
        processes.kill(identity.init)
        _gone(identity.init)
        processes.wait_gone(identity.outer)


def clean(files: Layout) -> None:
    """Remove the secrets and the data of a run that is over; its logs stay."""
    for folder in (files.pki, files.run_dir / "etcd", files.run_dir / "pods"):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (files.kubeconfig, files.agent, files.state, files.plan):
        with suppress(FileNotFoundError):
            file.unlink()


def _gone(init: Process) -> None:
    if not processes.wait_gone(init):
        raise Problem(
            f"process {init.pid} of the local cluster does not end; look for what holds it in "
            f"/proc/{init.pid}/stack"
        )


def fresh(path: Path) -> Layout:
    """An empty run directory, mode 0700."""
    files = Layout(path)
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise Problem(f"the run directory {path} cannot be made: {sentence(error)}") from error
    return files
