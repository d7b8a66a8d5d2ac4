"""Arguments: what is understood, and one sentence with the way out for everything else."""

from pathlib import Path

import pytest

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import main
from tenantry_bench.simulator.command import Job, checked, parsed

POLICY = """
apiVersion: tenantry.dev/v1alpha1
kind: TenantServingPolicy
metadata: {name: chat}
spec: {model: {name: a/model}, tenants: [{name: quiet, weight: 2}, {name: flooder}]}
"""


def job(*argv: str) -> Job:
    return checked(parsed(argv), argv)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "name a scenario"),
        (("N99",), "there is no scenario N99; there are N1,"),
        (("N1", "--seeds", "1,1"), "--seeds 1,1"),
        (("N1", "--seeds", "a"), "--seeds a"),
        (("N1", "--seeds", ""), "--seeds"),
        (("N1", "--seeds", "-1"), "-1"),
        (("N1", "--arms", "fast"), "no arm fast; there are stock,"),
        (("N1", "--arms", "stock,"), "there is no arm"),
        (("N1", "--arms", "tenantry:"), "no arm tenantry:"),
        (("N1", "--arms", "stock:FIFO"), "no arm stock:FIFO"),
        (("N1", "--arms", "tenantry:VTC"), "no arm tenantry:VTC"),
        (("N1", "--profile", "b300"), "--profile b300: neither a file nor one of a100"),
        (("N1", "--duration", "0"), "--duration 0"),
        (("N1", "--duration", "soon"), "--duration soon"),
        (("N1", "--kv-tokens", "12"), "--kv-tokens 12"),
        (("N1", "--kv-tokens", "many"), "--kv-tokens many"),
        (("N1", "--lengths", "guessed"), "--lengths guessed: give learned, oracle or noisy:X"),
        (("N1", "--lengths", "noisy"), "noisy:X"),
        (("N1", "--lengths", "noisy:-1"), "noisy:X"),
        (("N1", "--lengths", "noisy:nan"), "noisy:X"),
        (("N1", "--lengths", "bias:1.2"), "noisy:X"),
        (("N1", "--model", "noisy:1"), "bias:X"),
        (("N1", "--model", "bias:0"), "bias:X"),
        (("N1", "--engine-args", "--fast"), "--engine-args: unrecognized arguments: --fast"),
        (("N1", "--engine-args", "--max-num-seqs 0"), "not a whole number"),
        (("N1", "--engine-args", "'"), "close the quotation"),
        (
            ("N1", "--engine-args", "--max-num-seqs 64 --max-num-batched-tokens 32"),
            "--max-num-batched-tokens 32 is less than --max-num-seqs 64",
        ),
        (("N1", "--policy", "/no/such"), "--policy /no/such: cannot read it"),
        (("--trace", "/no/such"), "--trace /no/such: cannot read it"),
        (("N1", "--data", "/no/such"), "--data /no/such: there is no such folder"),
        (("N4", "--data", "/"), "--data: cannot read /azure"),
        (("N1", "--report", "/no/such/r.html"), "--report /no/such/r.html: there is no folder"),
        (("N1", "-o", "xml"), "xml"),
        (("N1", "--speed"), "--speed"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_argument_ends_with_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert main.run(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("tenantry simulate: ")
    assert err.count("\n") == 1


def test_without_more_the_default_is_three_seeds_on_an_a100() -> None:
    found = job("N1")
    assert found.seeds == [11, 12, 13]
    assert found.options.profile.name == "a100-llama3-8b"
    assert found.arms_of(found.scenarios[0]) == ["alone", "stock", "tenantry"]
    assert str(found.options.lengths) == str(found.options.model) == "learned"


def test_engine_arguments_replace_the_profiles() -> None:
    text = "--max-num-seqs 64 --max-num-batched-tokens=8192 --no-enable-prefix-caching"
    options = job("N1", "--engine-args", text, "--kv-tokens", "32000").options
    assert (options.seats, options.tokens, options.blocks(None)) == (64, 8192, 2000)
    assert not options.engine.caching
    assert not options.engine.use_async
    assert job("N1", "--engine-args", "--async-scheduling").options.engine.use_async


def test_the_kv_cache_is_as_asked_or_the_scenarios_or_the_profiles() -> None:
    options = job("N4-azure").options
    assert options.blocks(60_000) == 3750
    assert options.blocks(None) == 24_375


def test_a_policy_is_the_arm_tenantry(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(POLICY)
    policy = job("N1", "--policy", str(file)).options.policy
    assert policy is not None
    assert policy.weight_of("quiet") == 2.0


def test_a_policy_that_no_arm_would_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    given = ("N1", "--policy", str(file), "--arms")
    with pytest.raises(BadInputError, match="only the arm tenantry has a policy"):
        job(*given, "stock,alone,VTC")
    assert job(*given, "stock,tenantry:FIFO").arms == ["stock", "tenantry:FIFO"]


def test_a_public_file_that_is_lacking_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as refusal:
        job("N4", "--data", str(tmp_path))
    assert str(refusal.value).count("--data") == 1


def test_a_wrong_policy_is_told_by_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(POLICY.replace("weight: 2", "weight: -2"))
    assert main.run(["N1", "--policy", str(file)]) == 2
    assert "weight" in capsys.readouterr().err


def test_told_prints_as_it_was_given() -> None:
    options = job("N1", "--lengths", "noisy:0.7", "--model", "bias:1.2").options
    assert (str(options.lengths), str(options.model)) == ("noisy:0.7", "bias:1.2")


def test_a_scenario_that_is_named_twice_is_run_once() -> None:
    assert [each.name for each in job("N1", "N8", "N1").scenarios].count("N1") == 1


def test_the_list_has_every_scenario_and_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--list"]) == 0
    out = capsys.readouterr().out
    for name in ("N1p", "N1x2", "N4", "N6-64", "N7-1.1", "N8", "l4-qwen2.5-7b"):
        assert f"{name} " in out
    assert "(uncalibrated)" in out
