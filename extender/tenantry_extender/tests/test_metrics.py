from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_extender.books import Books, Kind
from tenantry_extender.metrics import ExtenderMetrics, Standing, standings
from tenantry_extender.tests.builders import (
    NAMESPACE,
    SHARED,
    a_node,
    a_pod,
    a_policy,
    a_sharing_node,
    books_of,
)


def a_house(running: str, waiting: str, gpus: int = 4) -> Books:
    """Policies `a` and `b`; each letter is a pod of that policy."""
    pods = [a_pod(f"r{n}", policy, node="gpu-0") for n, policy in enumerate(running)]
    pods += [a_pod(f"w{n}", policy) for n, policy in enumerate(waiting)]
    return books_of([a_node(gpus=gpus)], pods, [a_policy("a"), a_policy("b")])


def of(books: Books) -> dict[str, tuple[Fraction, ...]]:
    return {
        key[1]: (s.entitled, s.used, s.borrowed, s.lent, s.pending)
        for key, s in standings(books.snapshot).items()
    }


@pytest.mark.parametrize(
    ("running", "waiting", "a", "b"),
    [
        pytest.param("", "", (0, 0, 0, 0, 0), (0, 0, 0, 0, 0), id="empty"),
        pytest.param("aabb", "aa", (2, 2, 0, 0, 2), (2, 2, 0, 0, 0), id="each its share"),
        pytest.param("aaaa", "", (4, 4, 0, 0, 0), (0, 0, 0, 0, 0), id="idle GPUs are free to use"),
        pytest.param("aaaa", "bb", (2, 4, 2, 0, 0), (2, 0, 0, 2, 2), id="lent and wanted back"),
        pytest.param("aaa", "bb", (2, 3, 1, 0, 0), (2, 0, 0, 1, 2), id="one lent, one free"),
    ],
)
def test_gpus_are_shown_by_claim(
    running: str, waiting: str, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    assert of(a_house(running, waiting)) == {"a": a, "b": b}


@given(st.text("ab", max_size=4), st.text("ab", max_size=6))
def test_what_is_lent_is_what_is_borrowed(running: str, waiting: str) -> None:
    rows = standings(a_house(running, waiting).snapshot).values()
    assert sum(row.lent for row in rows) == sum(row.borrowed for row in rows)


def test_kinds_add_up_in_gpus() -> None:
    books = books_of(
        [a_node("gpu-0"), a_sharing_node("gpu-1", 2, 2)],
        [a_pod("x", "a", node="gpu-0"), a_pod("y", "a", node="gpu-1", resources={SHARED: "1"})],
        [a_policy("a")],
    )
    used = Fraction(3, 2)
    assert standings(books.snapshot)[NAMESPACE, "a"] == Standing(used, used)


def test_the_series_of_a_removed_policy_are_gone() -> None:
    books = a_house("a", "")
    registry = ExtenderMetrics(books, lambda: 3.0).registry
    labels = {"namespace": NAMESPACE, "policy": "b", "state": "used"}
    assert registry.get_sample_value("tenantry_slices", labels) == 0
    assert registry.get_sample_value("tenantry_snapshot_age_seconds") == 3.0
    books.remove(Kind.POLICIES, a_policy("b"))
    assert registry.get_sample_value("tenantry_slices", labels) is None
