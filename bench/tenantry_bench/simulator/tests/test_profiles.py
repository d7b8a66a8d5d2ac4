"""Cost models: those that are shipped are sound, and wrong ones are told."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import profiles
from tenantry_bench.simulator.profiles import Costs, Mixed, Times, Work

TIMES = Times(
    dense_ms=((1, 10.0), (100, 10.0), (200, 30.0)),
    sequence_us=50.0,
    context_ns=80.0,
    prompt_ps=2000.0,
    mixed=Mixed(factor=1.5, above=100),
)


@pytest.mark.parametrize("name", profiles.shipped())
def test_every_shipped_profile_is_named_like_its_file_and_says_where_it_comes_from(
    name: str,
) -> None:
    profile = profiles.find(name)
    assert profile.name == name
    assert len(profile.source) > 40
    assert profile.calibrated != ("data sheet" in profile.source)


@pytest.mark.parametrize("name", profiles.shipped())
def test_more_work_never_takes_less_time(name: str) -> None:
    costs = Costs(profiles.find(name).times)
    for mixed in (False, True):
        times = [costs.dense(n, mixed=mixed) for n in range(1, 9000)]
        assert all(a <= b for a, b in pairwise(times))


@pytest.mark.parametrize(
    ("tokens", "ms"),
    [(1, 10.7), (128, 14.4), (129, 15.2), (144, 20.9), (256, 22.7), (257, 23.8), (272, 32.3),
     (384, 33.4), (448, 43.0)],
)  # fmt: skip
def test_the_a100_has_the_staircase_of_its_kernels(tokens: int, ms: float) -> None:
    costs = Costs(profiles.find("a100-llama3-8b").times)
    assert costs.dense(tokens, mixed=True) * 1000 == pytest.approx(ms, rel=0.015)


@pytest.mark.parametrize(
    ("tokens", "mixed", "ms"),
    [
        (0, False, 0.0),
        (1, False, 10.0),
        (50, False, 10.0),
        (150, False, 20.0),
        (200, False, 30.0),
        (399, False, 30.0 + 199 * 20 / 199),
        (100, True, 10.0),
        (200, True, 40.0),
    ],
)
def test_dense_time_is_linear_between_points_and_mixed_steps_cost_more_beyond_a_bound(
    tokens: int, mixed: bool, ms: float
) -> None:
    assert Costs(TIMES).dense(tokens, mixed=mixed) * 1000 == pytest.approx(ms)


def test_a_slow_gpu_takes_longer_for_everything() -> None:
    work = Work(tokens=150, sequences=3, context=1000, attention=5e6)
    assert Costs(TIMES, 2.0).seconds(work) == pytest.approx(2 * Costs(TIMES).seconds(work))


@given(st.integers(1, 9000), st.integers(1, 300), st.integers(0, 10**6), st.floats(0, 1e9))
def test_a_step_is_the_sum_of_its_prices(n: int, seqs: int, context: int, attention: float) -> None:
    costs = Costs(TIMES)
    parts = costs.dense(n) + seqs * 50e-6 + context * 80e-9 + attention * 2000e-12
    assert costs.seconds(Work(n, seqs, context, attention)) == pytest.approx(parts)


BODY: dict[str, Any] = {
    "name": "x", "gpu": "g", "model": "m", "calibrated": False, "source": "s", "kv_tokens": 2048,
    "times": {"dense_ms": [[1, 1.0], [2, 2.0]], "sequence_us": 0, "context_ns": 0, "prompt_ps": 0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_tokens": 5}, "kv_tokens"),
        ({"speed": 5}, "speed"),
        ({"source": ""}, "source"),
        ({"times": {**BODY["times"], "dense_ms": [[2, 1.0], [3, 2.0]]}}, "begin at 1"),
        ({"times": {**BODY["times"], "dense_ms": [[1, 2.0], [3, 1.0]]}}, "not fall"),
        ({"times": {**BODY["times"], "context_ns": -1}}, "context_ns"),
        ({"times": {**BODY["times"], "context_ns": float("nan")}}, "context_ns"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_profile_is_told_by_its_field(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({**BODY, **change}))
    with pytest.raises(BadInputError, match=message):
        profiles.find(str(file))


def test_a_profile_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(BODY))
    assert profiles.find(str(file)).name == "x"


@pytest.mark.parametrize("text", ["[", "5", ""], ids=["broken", "a number", "empty"])
def test_what_is_no_profile_at_all_is_told(text: str) -> None:
    with pytest.raises(BadInputError, match="--profile"):
        profiles.parse(text, "p.yaml")


def test_an_unknown_profile_is_told_with_the_known_ones() -> None:
    with pytest.raises(BadInputError, match="a100-llama3-8b"):
        profiles.find("b300")
