"""One program, two names, a table of commands."""

import json
import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from tenantry_cli.main import COMMANDS, Command, dispatch, usage


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    assert find_spec(COMMANDS[name].module) is not None


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["forecast"]])
def test_no_command_or_an_unknown_one_ends_with_2_and_the_list(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch("tenantry", argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(name in err for name in (*COMMANDS, *argv))


@pytest.mark.parametrize("flag", ["help", "-h", "--help"])
def test_help_lists_the_commands_on_standard_output(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch("kubectl tenantry", [flag]) == 0
    assert capsys.readouterr().out.strip() == usage("kubectl tenantry")


@pytest.mark.parametrize("argv", [["version"], ["--version"]])
def test_the_version_is_that_of_the_distribution(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch("tenantry", argv) == 0
    assert capsys.readouterr().out == f"tenantry {metadata.version('tenantry')}\n"


def test_the_version_is_one_document_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("tenantry", ["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": metadata.version("tenantry")}


def test_a_package_that_is_not_installed_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tenantry_cli.main.COMMANDS", {"x": Command("no_such_package", "")})
    assert dispatch("tenantry", ["x"]) == 3
    assert "no_such_package" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tenantry", "kubectl-tenantry"])
def test_the_program_calls_itself_by_the_name_it_was_called_by(name: str) -> None:
    program = Path(sys.executable).parent / name
    done = subprocess.run(  # noqa: S603
        [program, "--help"], capture_output=True, text=True, check=True
    )
    assert f"usage: {name.replace('-', ' ')} COMMAND" in done.stdout


def tenantry(shell: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `$T` is the program."""
    environ = {**os.environ, "T": str(Path(sys.executable).parent / "tenantry")}
    return subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", shell], capture_output=True, text=True, check=False, env=environ
    )


@pytest.mark.parametrize("argument", ["version", "--help"])
def test_results_that_cannot_be_written_end_with_3_and_one_sentence(argument: str) -> None:
    done = tenantry(f"$T {argument} > /dev/full")
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "tenantry: the results cannot be written: No space left on device"
    ]


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = Path(sys.executable).parent / "tenantry"
    done = subprocess.run(  # noqa: S603
        [program, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.returncode == 3
    assert done.stderr == "tenantry: the results cannot be written: Broken pipe\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_error(closed: str) -> None:
    done = tenantry(f"$T version {closed}")
    assert (done.returncode, done.stderr) == (0, "")
