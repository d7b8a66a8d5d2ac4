import json
from pathlib import Path
from typing import Any

import pytest

from tenantry_api import names
from tenantry_cli import serve
from tenantry_cli.serve import ServeError, prepare

VLLM = "/venv/bin/vllm"
ARGUMENTS = ("a/model", "--port", "9000")


def a_policy(folder: Path, **spec: Any) -> Path:
    file = folder / "policy.json"
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "chat"},
        "spec": {"model": {"name": "a/model"}, "tenants": [{"name": "gold"}], **spec},
    }
    file.write_text(json.dumps(body))
    return file


def there() -> str | None:
    return VLLM


def nowhere() -> str | None:
    return None


def test_it_becomes_vllm_serve_with_our_scheduler_and_door(tmp_path: Path) -> None:
    file = a_policy(tmp_path)
    environ = {"HOME": "/home/me", "VLLM_SCHEDULER_TENANT_SHARE": "gold=1"}
    found = prepare(["--policy", str(file), "--", *ARGUMENTS], environ, there)
    assert found.argv == (
        VLLM,
        "serve",
        *ARGUMENTS,
        "--scheduler-cls",
        names.SCHEDULER_CLASS,
        "--middleware",
        names.MIDDLEWARE,
    )
    assert found.environ == {"HOME": "/home/me", "TENANTRY_POLICY": str(file)}


def test_the_policy_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    a_policy(tmp_path)
    found = prepare(["--policy=policy.json", "--", *ARGUMENTS], {}, there)
    assert found.environ[names.ENV_POLICY] == str(tmp_path / "policy.json")


def test_with_mode_off_it_is_stock_vllm(tmp_path: Path) -> None:
    file = a_policy(tmp_path, scheduling={"mode": "Off"})
    arguments = [*ARGUMENTS, "--middleware", "my.Own"]
    found = prepare(["--policy", str(file), "--", *arguments], {"TENANTRY_POLICY": "x"}, there)
    assert found.argv == (VLLM, "serve", *arguments)
    assert found.environ == {}


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("--scheduler-cls=my.Own", "--scheduler-cls"),
        ("--scheduler_cls", "--scheduler-cls"),
        ("--scheduler-c=my.Own", "--scheduler-cls"),
        ("--middleware", "--middleware"),
        ("--scheduling-policy=priority", "--scheduling-policy"),
    ],
)
def test_arguments_that_are_ours_are_refused_by_name(
    argument: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(ServeError, match=f"leave {name} out") as caught:
        prepare(["--policy", str(a_policy(tmp_path)), "--", "m", argument], {}, there)
    assert caught.value.status == 2


def test_a_bad_policy_is_refused_with_every_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = a_policy(tmp_path, weight=-1, gpu={"sharing": "Half"}, unknownTenant="Maybe")
    assert serve.run(["--policy", str(file), "--", *ARGUMENTS]) == 2
    said = capsys.readouterr().err
    for path in ("spec.weight", "spec.gpu.sharing", "spec.unknownTenant"):
        assert path in said


def test_a_policy_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.run(["--policy", "/no/where.yaml", "--", *ARGUMENTS]) == 2
    assert "--policy /no/where.yaml cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [[], ["--policy", "p.yaml"], ["--policy", "p.yaml", "--"], ["--", "m"]]
)
def test_wrong_use_ends_with_status_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        prepare(argv, {}, there)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["m"], "m is for `vllm serve`: write it after `--`"),
        (["m", "--port", "1"], "serve --policy p.yaml -- m --port 1"),
        (["m", "--", "--port=1"], "serve --policy p.yaml -- m --port=1"),
        (["--port=1", "--", "m"], "--port=1 is for `vllm serve`"),
    ],
    ids=["no dashes", "with a flag", "dashes too late", "a flag before them"],
)
def test_an_argument_of_vllm_s_before_the_dashes_is_shown_in_its_place(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        serve.run(["--policy", "p.yaml", *argv])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_without_vllm_it_ends_with_status_3(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match="no `vllm`") as caught:
        prepare(["--policy", str(a_policy(tmp_path)), "--", *ARGUMENTS], {}, nowhere)
    assert caught.value.status == 3
