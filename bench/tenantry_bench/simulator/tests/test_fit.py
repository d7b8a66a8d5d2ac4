"""The fits find what measurements were made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_bench.simulator import fit
from tenantry_bench.simulator.fit import Chunk, Decode, Known


def growth(tokens: float) -> float:
    return 0.05 * max(tokens - 64, 0)


def test_decode_prices_are_found() -> None:
    steps = [
        Decode(n, n * context, 10.0 + growth(n) + 0.04 * n + 8e-5 * n * context)
        for n in (1, 8, 32, 64, 128)
        for context in (200, 800)
    ]
    found = fit.decode(steps, growth)
    assert found == pytest.approx((10.0, 0.04, 8e-5), rel=1e-6)


def test_a_price_is_never_negative() -> None:
    steps = [Decode(n, n * 100.0, 20.0 - 0.01 * n) for n in (1, 8, 64)]
    assert min(fit.decode(steps, lambda _: 0.0)) >= 0


def test_prompt_attention_is_found_beside_the_way_through_the_server() -> None:
    prompts = [
        (n, 15.0 + sum(10 + growth(part) for part in fit.parts(n, 2048)) + 2e-6 * n * n / 2)
        for n in (700, 3000, 12_000)
    ]
    assert fit.first_tokens(prompts, lambda n: 10 + growth(n), 2048) == pytest.approx(2e-6)


def test_prompt_attention_is_found_in_single_chunks() -> None:
    chunks = [
        Chunk(n, before, 10.0 + 3e-6 * n * (before + n / 2))
        for n in (64, 512, 2048)
        for before in (0, 4096)
    ]
    assert fit.attention(chunks, lambda _: 10.0) == pytest.approx(3e-6)


def test_the_growth_of_another_gpu_is_found() -> None:
    known = Known(base_ms=6.0, attention_ms=1e-6, chunk=4096)
    prompts = [
        (
            n,
            20.0
            + sum(6.0 + 0.4 * (growth(part) - growth(1)) for part in fit.parts(n, 4096))
            + 1e-6 * n * n / 2,
        )
        for n in (700, 3000, 12_000)
    ]
    assert fit.growth_scale(prompts, growth, known) == pytest.approx(0.4)


def test_a_rising_table_takes_means_and_never_falls() -> None:
    assert fit.rising([(2, 5.0), (1, 3.0), (1, 5.0), (3, 4.0)]) == [(1, 4.0), (2, 5.0), (3, 5.0)]


@given(st.lists(st.floats(0.1, 100.0), min_size=2, max_size=60), st.floats(0.001, 0.3))
def test_a_thinned_table_stays_within_its_tolerance(steps: list[float], tolerance: float) -> None:
    points = fit.rising([(8 * i + 1, ms) for i, ms in enumerate(steps)])
    at = fit.between(fit.thinned(points, tolerance))
    for tokens, ms in points:
        assert at(tokens) == pytest.approx(ms, rel=tolerance + 1e-9)


def test_beyond_its_points_a_table_goes_on_at_its_mean_slope() -> None:
    at = fit.between([(0, 0.0), (10, 10.0), (20, 10.0)])
    assert at(40) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("tokens", "found"), [(5, [5]), (10, [10]), (25, [10, 10, 5])], ids=["one", "whole", "rest"]
)
def test_a_prompt_runs_in_chunks(tokens: int, found: list[int]) -> None:
    assert fit.parts(tokens, 10) == found
