import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenantry_api import names
from tenantry_engine import config as configuration
from tenantry_engine import plugin, startup
from tenantry_engine.config import ConfigError
from tenantry_engine.tests.policies import a_text

SERVE = ["/venv/bin/vllm", "serve", "a/model"]
OURS = [*SERVE, "--scheduler-cls", names.SCHEDULER_CLASS]
FREE = {"TENANTRY_METRICS_PORT": "0"}


def test_the_plugin_knows_the_names_of_the_contract() -> None:
    assert plugin._VARIABLES == (names.ENV_POLICY, names.ENV_SHARE)
    assert names.SCHEDULER_CLASS.startswith(plugin._PACKAGE)
    assert names.MIDDLEWARE.startswith(plugin._PACKAGE)


@pytest.mark.parametrize(
    ("environ", "argv", "expected"),
    [
        ({}, SERVE, False),
        ({"TENANTRY_METRICS_PORT": "1"}, SERVE, False),
        ({"TENANTRY_POLICY": "p"}, SERVE, True),
        ({"VLLM_SCHEDULER_TENANT_SHARE": "gold=1"}, SERVE, True),
        ({}, OURS, True),
        ({}, [*SERVE, f"--middleware={names.MIDDLEWARE}"], True),
        ({}, [*SERVE, "--config", "/no/where"], False),
        ({}, [], False),
    ],
)
def test_the_plugin_is_asked_for_by_a_variable_or_a_class(
    environ: Mapping[str, str], argv: list[str], expected: bool
) -> None:
    assert plugin.asked(environ, " ".join(plugin.words(argv))) is expected


@pytest.mark.parametrize("form", ["--config {}", "--config={}"])
def test_a_configuration_file_of_vllm_can_ask_for_it(form: str, tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text(f"scheduler-cls: {names.SCHEDULER_CLASS}\n")
    command = " ".join(plugin.words([*SERVE, *form.format(file).split(" ")]))
    assert plugin.asked({}, command)


def test_installed_but_not_asked_for_it_imports_nothing() -> None:
    program = (
        "import sys; from tenantry_engine.plugin import register; register();"
        "print(sorted(m for m in sys.modules if m.startswith(('tenantry', 'vllm', 'prometheus'))))"
    )
    answer = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], env={}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "['tenantry_engine', 'tenantry_engine.plugin']"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (SERVE, True),
        (["/venv/lib/vllm/entrypoints/cli/main.py"], True),
        (["/home/me/service.py"], False),
        (["-c"], False),
        ([], False),
    ],
)
def test_only_vllms_own_program_is_ended(argv: list[str], expected: bool) -> None:
    assert plugin.started_as_command(argv) is expected


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"VLLM_SCHEDULER_TENANT_SHARE": "gold=-1"}, "the weight must be above 0"),
        ({"TENANTRY_POLICY": "/no/where"}, "cannot be read"),
        ({"TENANTRY_METRICS_PORT": "http"}, "is not a port"),
        ({"VLLM_USE_RUST_FRONTEND": "1"}, "runs no middleware"),
    ],
)
def test_bad_input_ends_vllm_with_one_sentence_and_status_2(
    environ: Mapping[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        startup.check(environ, " ".join(OURS), stops=True)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_in_somebodys_own_program_bad_input_is_an_error() -> None:
    with pytest.raises(ConfigError):
        startup.check({"VLLM_SCHEDULER_TENANT_SHARE": ""}, "service.py", stops=False)


def test_a_port_in_use_ends_vllm_with_status_3(
    taken_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        startup.check({"TENANTRY_METRICS_PORT": str(taken_port)}, " ".join(OURS), stops=True)
    assert ended.value.code == 3
    assert f"port {taken_port}" in capsys.readouterr().err


def test_notices_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = tmp_path / "policy.json"
    file.write_text(a_text(weight=2))
    environ = {"TENANTRY_POLICY": str(file), "VLLM_SCHEDULER_TENANT_SHARE": "x=1", **FREE}
    startup.check(environ, " ".join(OURS), stops=True)
    lines = [record.message for record in caplog.records]
    assert sum("the policy wins" in line for line in lines) == 1
    assert sum("spec.weight" in line for line in lines) == 1
    assert all(record.name == configuration.LOGGER_NAME for record in caplog.records)


OFTEN = """
import multiprocessing, sys
sys.argv = ["/venv/bin/vllm", "serve", "a/model", "--scheduler-cls", sys.argv[1]]
from tenantry_engine.plugin import register

def look():
    for _ in range(3):
        register()
    from vllm.v1.engine.output_processor import OutputProcessor
    function, layers = OutputProcessor.add_request, 0
    while hasattr(function, "__wrapped__"):
        function, layers = function.__wrapped__, layers + 1
    print(layers, flush=True)

if __name__ == "__main__":
    look()
    child = multiprocessing.get_context("spawn").Process(target=look)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


@pytest.mark.engine
def test_registered_three_times_and_in_a_child_it_wraps_vllm_once_in_each_process(
    tmp_path: Path,
) -> None:
    program = tmp_path / "often.py"
    program.write_text(OFTEN)
    environ = {**os.environ, "VLLM_SCHEDULER_TENANT_SHARE": "gold=1", **FREE}
    answer = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(program), names.SCHEDULER_CLASS],
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["1", "1"]
    assert "Duplicated" not in answer.stderr


def test_a_policy_without_our_scheduler_is_said_to_have_no_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    environ = {"VLLM_SCHEDULER_TENANT_SHARE": "gold=1"}
    startup.check(environ, " ".join(SERVE), stops=True)
    assert any("--scheduler-cls" in record.message for record in caplog.records)
    caplog.clear()
    startup.check({**environ, **FREE}, " ".join(OURS), stops=True)
    assert caplog.records == []
