"""The arms without Kubernetes: `tenantry serve` with the policy beside plain `vllm serve`."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from e2e import paths
from e2e.agent import images
from e2e.demo import policies
from e2e.demo.arms import STOCK, TENANTRY
from e2e.demo.progress import Progress
from e2e.problem import Problem
from tenantry_api.names import ENV_METRICS_PORT

IMAGE = "ghcr.io/tenantry/engine:local"
"""Any engine image: its entry in the image map has what this machine changes for vLLM."""

LOOPBACK = "127.0.0.1"
HEALTHY_SECONDS = 240.0
STOP_SECONDS = 5.0
SHOWN_EVERY = 10.0
LOG_BYTES = 1500


@dataclass(frozen=True)
class Engine:
    """One server: its process group, its URL and its log."""

    process: "subprocess.Popen[bytes]"
    url: str
    log: Path

    @property
    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def check(self) -> None:
        if self.process.poll() is not None:
            tail = self.log.read_bytes()[-LOG_BYTES:].decode(errors="replace")
            code = self.process.returncode
            raise Problem(f"an engine ended with {code}; the end of {self.log}:\n{tail}")

    def ask_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)

    def stop(self) -> None:
        """End the server and whatever it has started, with some patience."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class EnginePlace:
    """Two engines on ports of this machine."""

    engines: Mapping[str, Engine]

    def where(self, server: str) -> Sequence[str]:
        return [f"--url={self.engines[server].url}"]

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    def check(self) -> None:
        for engine in self.engines.values():
            engine.check()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def command(server: str, policy: Path, port: int) -> tuple[list[str], dict[str, str]]:
    """The command line and the added environment of a server."""
    places = {
        "venv": str(paths.venv()),
        "checkout": str(paths.checkout()),
        "models": str(paths.cache() / "models"),
    }
    image = images.find(images.load([paths.checkout() / "e2e" / "images.yaml"], places), IMAGE)
    if image is None:
        raise Problem(f"e2e/images.yaml says nothing about {IMAGE}")
    spec = policies.checked(policies.read(policy)).spec
    programs = paths.venv() / "bin"
    serve = {
        STOCK: [str(programs / "vllm"), "serve"],
        TENANTRY: [str(programs / "tenantry"), "serve", f"--policy={policy}", "--"],
    }
    words = [spec.model.location, f"--host={LOOPBACK}", f"--port={port}", *spec.engine.args]
    return image.argv(serve[server], words), dict(image.env)


@contextmanager
def place(folder: Path, progress: Progress) -> Iterator[EnginePlace]:
    """Both engines, healthy; afterwards no process of them is left."""
    files = policies.write(folder / "policies")
    ports = free_ports(2 * len(files))
    engines: dict[str, Engine] = {}
    try:
        with progress.step("start both engines"):
            for server, file in files.items():
                engines[server] = _start(folder, server, file, (ports.pop(), ports.pop()))
            _wait(engines, progress)
        yield EnginePlace(engines)
    finally:
        with progress.step("stop both engines"):
            for engine in engines.values():
                engine.ask_to_stop()
            for engine in engines.values():
                engine.stop()


def _start(folder: Path, server: str, policy: Path, ports: tuple[int, int]) -> Engine:
    argv, added = command(server, policy, ports[0])
    log = folder / f"{server}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **added, ENV_METRICS_PORT: str(ports[1])},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Engine(process, f"http://{LOOPBACK}:{ports[0]}", log)


def _wait(engines: Mapping[str, Engine], progress: Progress) -> None:
    waiting = dict(engines)
    deadline, shown = time.monotonic() + HEALTHY_SECONDS, time.monotonic()
    while waiting:
        for server, engine in list(waiting.items()):
            engine.check()
            if engine.healthy:
                progress.say(f"{server} serves at {engine.url}")
                del waiting[server]
        if waiting and time.monotonic() > deadline:
            logs = ", ".join(str(engine.log) for engine in waiting.values())
            raise Problem(f"no answer after {HEALTHY_SECONDS:.0f} s; look into {logs}")
        if waiting and time.monotonic() - shown > SHOWN_EVERY:
            shown = time.monotonic()
            progress.say(f"waiting for {' and '.join(waiting)}")
        time.sleep(0.5)
