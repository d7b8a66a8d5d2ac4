"""A real `vllm serve` on the CPU with the tiny model, and a client that can call from anywhere."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from e2e import models, paths
from e2e.poll import until

START_SECONDS = 240.0
GATEWAY = "127.0.0.1"
STRANGER = "127.0.0.2"
WORKER = "VLLM::Worker"
"""What vLLM calls the process that runs the model."""
ENGINE = (
    "--served-model-name=tiny", "--dtype=float32", "--enforce-eager", "--max-model-len=2048",
    "--max-num-seqs=16", "--block-size=32", "--num-gpu-blocks-override=200", "--host=127.0.0.1",
)  # fmt: skip
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Server:
    """A program that serves on a port; `program` is followed by the model and the flags."""

    def __init__(
        self,
        folder: Path,
        program: Sequence[str],
        environ: Mapping[str, str],
        *flags: str,
        kind: models.Kind = "tiny",
    ) -> None:
        self.port, self.metrics_port = _free_port(), _free_port()
        self._log = folder / "server.log"
        model = models.make(kind, paths.cache() / "models" / kind)
        self.argv = [*program, str(model), *ENGINE, f"--port={self.port}", *flags]
        self.environ = {
            **os.environ,
            **ENVIRONMENT,
            "TENANTRY_METRICS_PORT": str(self.metrics_port),
            **environ,
        }

    def __enter__(self) -> "Server":
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - ours
                self.argv, env=self.environ, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    @property
    def log(self) -> str:
        """Everything that the server has said."""
        return self._log.read_text(errors="replace")

    def ready(self) -> "Server":
        """Wait until it serves."""
        until("the server's health", self._healthy, START_SECONDS, every=0.3)
        return self

    def _healthy(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{self.log[-4000:]}")
        try:
            return self.get("/health").status == 200
        except OSError:
            return False

    def get(self, path: str, port: int | None = None) -> Answer:
        """GET from the server, or from its metrics port."""
        return self._ask("GET", path, None, {}, GATEWAY, port)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        tenant: str | None = None,
        peer: str = GATEWAY,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """POST as JSON from the address `peer`, with the tenant in the usual header."""
        named = {} if tenant is None else {"X-Tenant-ID": tenant}
        return self._ask("POST", path, body, {**named, **(headers or {})}, peer, None)

    def complete(self, tenant: str | None = None, *, peer: str = GATEWAY, **body: Any) -> Answer:
        """A completion of 4 tokens, unless `body` says otherwise."""
        wanted = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
        return self.post("/v1/completions", {**wanted, **body}, tenant, peer)

    def hang_up(self, tenant: str, **body: Any) -> None:
        """Ask for a stream, read its first bytes and close the connection."""
        wanted = {"model": "tiny", "prompt": [5, 6, 7], "stream": True, **body}
        connection = http.client.HTTPConnection(GATEWAY, self.port, timeout=60)
        headers = {"content-type": "application/json", "X-Tenant-ID": tenant}
        connection.request("POST", "/v1/completions", json.dumps(wanted), headers)
        connection.getresponse().read(40)
        connection.close()

    def figures(self, port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """All series on a port, by name and sorted labels."""
        text = self.get("/metrics", port).body.decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def engine(self, name: str, **labels: str) -> float | None:
        """A series of the engine process."""
        return _pick(self.figures(self.metrics_port), name, labels)

    def door(self, name: str, **labels: str) -> float | None:
        """A series of the door."""
        return _pick(self.figures(self.port), name, labels)

    def served(self, tenant: str) -> float:
        """Output tokens of a tenant so far, as the engine counts them."""
        return self.engine("tenantry_tokens_total", tenant=tenant, kind="output") or 0.0

    def model_cpu(self) -> float:
        """CPU seconds of the process that runs the model, so far. It never waits for long, so they
        tell how much it has computed, whoever else has been using the machine."""
        found = [_stat(each) for each in Path("/proc").glob("[0-9]*")]
        mine = [f for name, f in found if name == WORKER and int(f[3]) == self._process.pid]
        (fields,) = mine
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        peer: str,
        port: int | None,
    ) -> Answer:
        connection = http.client.HTTPConnection(
            GATEWAY, port or self.port, timeout=60, source_address=(peer, 0)
        )
        try:
            sent = {"content-type": "application/json", **headers}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            found = connection.getresponse()
            return Answer(found.status, dict(found.getheaders()), found.read())
        finally:
            connection.close()


def tenantry_serve(policy: Path) -> list[str]:
    """The program `tenantry serve` up to vLLM's arguments."""
    program = "import sys; from tenantry_cli.main import main; main()"
    return [sys.executable, "-c", program, "serve", "--policy", str(policy), "--"]


def vllm_serve() -> list[str]:
    """The program `vllm serve`."""
    return [str(paths.venv() / "bin" / "vllm"), "serve"]


def _pick(
    figures: Mapping[tuple[str, tuple[tuple[str, str], ...]], float],
    name: str,
    labels: Mapping[str, str],
) -> float | None:
    wanted = set(labels.items())
    found = [value for (n, given), value in figures.items() if n == name and wanted <= set(given)]
    return sum(found) if found else None


def _stat(process: Path) -> tuple[str, Sequence[str]]:
    """Name and the further fields of /proc/PID/stat, see proc(5); empty where it has ended."""
    try:
        text = (process / "stat").read_text()
    except OSError:
        return "", ()
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def _free_port() -> int:
    """Below the ports that the kernel deals out: seconds pass before the server takes it, and
    whatever connects to somewhere meanwhile would get it."""
    while True:
        port = random.randrange(20_000, 30_000)  # noqa: S311 - two test runs must not agree on one
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))  # noqa: S104 - as the metrics do
            return port
