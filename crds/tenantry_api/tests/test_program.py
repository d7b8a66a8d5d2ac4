"""Every program says what it lacks."""

import sys
from pathlib import Path

import pytest

from tenantry_api import program


def a_module(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "a_program.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "a_program", raising=False)
    return "a_program"


def test_a_program_ends_with_what_its_main_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = a_module(tmp_path, "def main():\n    return 7\n", monkeypatch)
    assert program.run("x", module, "operator") == 7


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = a_module(tmp_path, "import no_such_package.deep\n", monkeypatch)
    assert program.run("tenantry-x", module, "operator") == 3
    said = "tenantry-x: needs the package no_such_package: pip install 'tenantry[operator]'\n"
    assert capsys.readouterr().err == said


def test_a_missing_module_of_ours_is_a_bug_and_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = a_module(tmp_path, "import tenantry_no_such\n", monkeypatch)
    with pytest.raises(ModuleNotFoundError, match="tenantry_no_such"):
        program.run("x", module, "operator")
