import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenantry_extender import main

COMMAND = [sys.executable, "-m", "tenantry_extender.main"]


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """It names an API server where none is."""
    server = {"server": f"http://127.0.0.1:{a_free_port()}"}
    file = tmp_path / "kubeconfig"
    context = {"cluster": "c", "user": "u"}
    body = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    file.write_text(json.dumps(body))
    return file


@contextmanager
def running(kubeconfig: Path) -> Iterator["subprocess.Popen[str]"]:
    ports = [f"--verbs-port={a_free_port()}", f"--port={a_free_port()}", "--host=127.0.0.1"]
    process = subprocess.Popen(  # noqa: S603
        [*COMMAND, *ports, f"--kubeconfig={kubeconfig}"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        deadline = time.monotonic() + 20
        while "verbs on" not in process.stderr.readline():
            assert time.monotonic() < deadline
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_it_also_while_the_api_server_is_away(
    kubeconfig: Path, number: int, code: int
) -> None:
    with running(kubeconfig) as process:
        os.kill(process.pid, number)
        assert process.wait(timeout=10) == code


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port=0"], "'0' is no port; use 1 to 65535"),
        (["--verbs-port=http"], "'http' is no port"),
        (["--hold-seconds=-1"], "'-1' is no time; use seconds"),
        (["--hold-seconds=soon"], "'soon' is no time"),
        (["--log-level=loud"], "'loud' is no log level; use DEBUG"),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
    ids=str,
)
def test_a_flag_of_nonsense_is_named(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main.main(flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_environment_sets_the_log_level_and_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTRY_LOG_LEVEL", "debug")
    assert main.arguments().parse_args([]).log_level == "DEBUG"
    monkeypatch.setenv("TENANTRY_LOG_LEVEL", "chatty")
    with pytest.raises(SystemExit):
        main.main([])
    assert "'chatty' is no log level" in capsys.readouterr().err


def test_without_a_cluster_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([f"--kubeconfig={tmp_path / 'none'}"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("tenantry-extender: no API server to talk to: ")
    assert "give --kubeconfig FILE" in error


@pytest.mark.parametrize("junk", [b"junk", b"", b"[", b"\xff", b"contexts: 5"], ids=str)
def test_a_kubeconfig_that_is_none_is_one_sentence(
    junk: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(junk)
    assert main.main([f"--kubeconfig={file}"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tenantry-extender: no API server to talk to: ")


def test_a_port_in_use_is_named(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = [f"--kubeconfig={kubeconfig}", "--host=127.0.0.1", f"--port={port}"]
        assert main.main(flags) == 3
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
