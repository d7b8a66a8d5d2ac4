"""A load file means what it says, or every mistake in it is named."""

from pathlib import Path

import pytest

from tenantry_bench.errors import BadInputError
from tenantry_bench.load import LogNormal, Uniform, find, parse, seconds, shipped

WHOLE = """
seed: 3
warmup: 500ms
tenants:
  - {name: quiet, process: poisson, rate: 3, requests: 5, prompt: [24, 40], output: 16}
  - {name: noisy, connections: 2, start: 2s, prompt: {mean: 100, cv: 0.5}, output: [1, 2]}
"""


def test_a_whole_load_file_is_read() -> None:
    load = parse(WHOLE, "x.yaml", Path(), "x")
    quiet, noisy = load.tenants
    assert (load.name, load.seed, load.warmup) == ("x", 3, 0.5)
    assert (quiet.loop, quiet.output) == ("open", Uniform(low=16, high=16))
    assert (noisy.loop, noisy.start, noisy.prompt) == ("closed", 2.0, LogNormal(mean=100, cv=0.5))


@pytest.mark.parametrize(
    ("written", "expected"), [(7, 7.0), ("7s", 7.0), ("0.5", 0.5), ("250ms", 0.25), ("2m", 120.0)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(written: object, expected: float) -> None:
    assert seconds(written) == expected


TENANT = "tenants: [{name: a, rate: 1, requests: 1, prompt: 5, output: 5%s}]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tenants: [", "not YAML"),
        ("- 1", "a mapping"),
        ("seed: 1", "either tenants or trace"),
        (TENANT % ", connections: 3", "either rate (open loop) or connections"),
        ("tenants: [{name: a, prompt: 5, output: 5}]", "either rate"),
        ("tenants: [{name: a, connections: 2, process: poisson, prompt: 5, output: 5}]", "process"),
        (TENANT % ", colour: red", "tenants[0].colour: is no field here; docs/reference/bench.md"),
        ("tenants: [{rate: 1, prompt: 5, output: 5}]", "tenants[0].name: is required"),
        (TENANT % ", start: soon", "tenants[0].start: is not a duration"),
        ("seed: -1\n" + TENANT % "", "seed: Input should be greater than or equal to 0, got -1"),
        ("seed: 1.5\n" + TENANT % "", "seed"),
        ("seed: 1\nseed: 2\n" + TENANT % "", "the key seed is given twice"),
        ("warmup: 9s\nduration: 5s\n" + TENANT % "", "duration must be longer than warmup"),
        ("tenants: [{name: a, rate: 0, prompt: 5, output: 5}]", "tenants[0].rate"),
        ("tenants: [{name: a, rate: .nan, prompt: 5, output: 5}]", "tenants[0].rate"),
        ("tenants: [{name: a, rate: true, prompt: 5, output: 5}]", "tenants[0].rate"),
        ("tenants: [{name: a, rate: 1, prompt: [9, 5], output: 5}]", "swap them"),
        ("tenants: [{name: a, rate: 1, prompt: [0, 5], output: 5}]", "tenants[0].prompt"),
        ("tenants: [{name: a, rate: 1, prompt: x, output: 5}]", "tenants[0].prompt"),
        ("tenants: [{name: a, rate: 1, prompt: {mean: 1}, output: 5}]", "tenants[0].prompt"),
        ('tenants: [{name: "a\\nb", rate: 1, prompt: 5, output: 5}]', "tenants[0].name"),
        (
            "tenants: [&a {name: a, rate: 1, prompt: 5, output: 5}, *a]",
            "given twice: a",
        ),
        ("trace: nowhere.jsonl", "cannot read it"),
        ("tenants: {a: 1}", "tenants: must be a list"),
        ("tenants: [null]", "tenants[0]: must be a mapping"),
        ("tenants: [{name: 5, rate: 1, prompt: 5, output: 5}]", "put it in quotes, got 5"),
        ("tenants: [{name: größe, rate: 1, prompt: 5, output: 5}]", "printable ASCII"),
        ('tenants: [{name: "*", rate: 1, prompt: 5, output: 5}]', "no tenant may be called *"),
        ("warmup: 99999999h\n" + TENANT % "", "warmup: is not a duration from 0 s to 30 days"),
        ("duration: 2026-99-99\n" + TENANT % "", "not YAML"),
        ("seed: " + "9" * 5000, "not YAML"),
        ("tenants: " + "[" * 3000, "not YAML"),
    ],
)
def test_a_mistake_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse(text, "x.yaml", Path())
    assert says in str(caught.value)


def test_all_mistakes_are_reported_at_once_with_their_paths() -> None:
    text = "warmup: no\ntenants: [{name: a, rate: -1, prompt: [5, 2], output: 1}]"
    with pytest.raises(BadInputError) as caught:
        parse(text, "x.yaml", Path())
    assert all(
        path in str(caught.value) for path in ("warmup", "tenants[0].rate", "tenants[0].prompt")
    )


def test_the_loads_that_are_shipped_are_whole() -> None:
    assert {"noisy-neighbour", "quiet-alone", "two-equal"} <= set(shipped())
    assert all(find(name).ends for name in shipped())


def test_the_quiet_tenant_is_the_same_with_and_without_its_neighbour() -> None:
    assert find("quiet-alone").tenants == find("noisy-neighbour").tenants[:1]


def test_a_name_that_is_nothing_lists_what_there_is() -> None:
    with pytest.raises(BadInputError, match="noisy-neighbour"):
        find("no-such-load")


def test_a_load_file_is_found_by_its_path_and_a_trace_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"t": 0, "prompt": 3, "out": 2}\n')
    (tmp_path / "mine.yaml").write_text("trace: t.jsonl\n")
    assert find(str(tmp_path / "mine.yaml")).trace == find(str(tmp_path / "t.jsonl")).trace
    assert find(str(tmp_path / "mine.yaml")).name == "mine"


def test_a_load_without_an_end_needs_a_duration() -> None:
    load = parse("tenants: [{name: a, rate: 1, prompt: 5, output: 5}]", "x", Path(), "x")
    with pytest.raises(BadInputError, match="--duration"):
        load.with_duration(None)
    assert load.with_duration(9.0).duration == 9.0


def test_a_duration_within_the_warm_up_is_refused() -> None:
    with pytest.raises(BadInputError, match="longer than warmup"):
        find("noisy-neighbour").with_duration(3.0)
