"""Buckets of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.tiles import BUCKETS, ENDS, bucket, spread


@given(st.integers(0, 20_000))
def test_a_bucket_ends_where_the_next_begins(tokens: int) -> None:
    at = bucket(tokens)
    assert at == BUCKETS - 1 or tokens <= ENDS[at]
    assert at == 0 or tokens > ENDS[at - 1]
    assert bucket(tokens) <= bucket(tokens + 1) <= bucket(tokens) + 1


@pytest.mark.parametrize("edge", [64, 128, 256, 384, 512, 640, 1024, 2048, 4096])
def test_a_tile_s_edge_ends_a_bucket(edge: int) -> None:
    assert ENDS[bucket(edge)] == edge
    assert bucket(edge + 1) == bucket(edge) + 1


def test_what_is_not_known_follows_its_neighbours_and_fades() -> None:
    values = spread({10: (0.2, 1.0), 14: (0.4, 1.0)})
    assert values[10] == 0.2
    assert values[14] == 0.4
    assert values[12] == pytest.approx(0.3)
    assert 0.0 < values[18] < values[15] < 0.4
    assert values[BUCKETS - 1] == pytest.approx(0.0, abs=1e-9)


def test_without_anything_known_all_are_zero() -> None:
    assert spread({}) == [0.0] * BUCKETS


def test_what_is_hardly_known_gives_way_to_what_is_known() -> None:
    values = spread({10: (1.0, 0.1), 8: (0.2, 1.0)})
    assert values[10] == 1.0
    assert values[11] < 0.2
