"""How the process begins and ends where it cannot run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "tenantry_operator.main"]


def operator(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """The process outside of a cluster, run to its end."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "TENANTRY"))} | environ
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
