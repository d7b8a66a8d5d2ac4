"""How the process begins and ends where it cannot run."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "tenantry_operator.main"]


def environment(**own: str) -> dict[str, str]:
    """This process' environment without what the operator reads, and `own`."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "TENANTRY"))} | own


def operator(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The process outside of a cluster, run to its end."""
    env = environment(**environ)
    return subprocess.run(  # noqa: S603
        [*COMMAND, *arguments], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("junk", [b"junk", b"[", b"\xff", b"contexts: 5"], ids=str)
def test_a_kubeconfig_that_is_none_is_one_sentence(junk: bytes, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(junk)
    done = operator(KUBECONFIG=str(file))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("tenantry-operator: no service account, and no kubeconfig to use: ")


def test_an_argument_is_wrong_use() -> None:
    done = operator("--port=1")
    assert done.returncode == 2
    assert "unrecognized arguments: --port=1" in done.stderr


NOBODY = """
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {}}]
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_ends_the_wait_for_an_api_server(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(NOBODY)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    env = environment(KUBECONFIG=str(file), TENANTRY_PORT=str(port))
    with subprocess.Popen(COMMAND, env=env, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        assert any("waiting: " in line for line in process.stderr)
        process.send_signal(number)
        assert process.wait(timeout=20) == status
