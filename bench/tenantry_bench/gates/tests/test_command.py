"""The command as a user meets it, without a simulation."""

import json
from pathlib import Path

import pytest

from tenantry_bench.gates import groups, main
from tenantry_bench.gates.group import Group, Plan, Results


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--data", "nowhere"], "no azure/AzureLLMInferenceTrace_conv.csv"),
        (["--only", "weight"], "--only weight: there are neighbour, weights"),
        (["--seeds", "1,1"], "--seeds 1,1: give different whole numbers"),
        (["--seeds", "x"], "--seeds x: give different whole numbers"),
        (["--slack", "0.5"], "--slack 0.5: give a factor from 1 to 10"),
        (["--slack", "nan"], "--slack nan: give a factor from 1 to 10"),
        (["--workers", "0"], "--workers 0: give a number from 1 to 64"),
        (["--fast"], "unrecognized arguments: --fast; --help lists the arguments"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_mistake_is_one_sentence(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(argv) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_without_data_the_rows_that_need_it_say_so_and_the_status_is_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "results.md"
    argv = ["--only", "clients,fidelity", "--build", str(tmp_path), "--page", str(page)]
    assert main.main(argv) == 3
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith("not run: no data") for line in lines[:-1])
    assert "not run: no data" in page.read_text()
    gates = json.loads((tmp_path / "gates.json").read_text())["gates"]
    assert {gate["verdict"] for gate in gates} == {"not run: no data"}


def test_the_page_does_not_say_where_the_data_lies() -> None:
    argv = ["--data", "/home/me/data", "--only", "clients"]
    assert main._command(argv) == "python -m tenantry_bench.gates --data DIR --only clients"


@pytest.mark.parametrize("group", groups.GROUPS.values(), ids=lambda group: group.name)
@pytest.mark.parametrize("data", ["", "somewhere"])
def test_a_table_without_any_run_has_every_row_once(group: Group, data: str) -> None:
    plan = Plan(data=data)
    rows = group.rows(plan, Results({}))
    names = [row.claim.id for row in rows]
    assert names
    assert len(set(names)) == len(names)
    assert all(row.value is None and row.verdict.startswith("not run") for row in rows)


@pytest.mark.parametrize("group", groups.GROUPS.values(), ids=lambda group: group.name)
def test_seeds_that_are_asked_for_are_the_ones_that_are_run(group: Group) -> None:
    jobs = group.jobs(Plan(seeds=(5,), family=(6,), data="somewhere"))
    assert {job.seed for job in jobs if hasattr(job, "seed")} <= {5, 6, 11}
    assert len(set(jobs)) <= len(jobs)
