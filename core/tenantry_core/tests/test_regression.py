"""Least squares with a prior, and offsets by cell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.regression import SIZE, UNKNOWN, Cell, Prior, Solved, dot
from tenantry_core.tests import a100

PRIOR = Prior(0.09, (0.25,) * SIZE)
NOISE = 0.01**2
FIGURES = st.lists(st.floats(0.0, 2.0), min_size=SIZE, max_size=SIZE)


def solved(*cells: Cell) -> Solved:
    sums = [sum(parts) for parts in zip(*(cell.part for cell in cells), strict=True)]
    return Solved(sums, PRIOR, NOISE)


def test_with_nothing_observed_the_prior_holds() -> None:
    fit = solved(Cell())
    assert fit.theta == pytest.approx([1.0] * SIZE)
    assert fit.variance([1.0, 0, 0, 0, 0, 0]) == pytest.approx(0.09 + 0.25)
    assert fit.variance([1.0] * SIZE) == pytest.approx(0.09 * SIZE**2 + 0.25 * SIZE)


def test_coefficients_and_offsets_are_found_together() -> None:
    dice = a100.Dice(1)
    theta, offsets = [1.2, 0.7, 1.0, 0.4, 1.6, 1.1], [0.1, -0.2, 0.05]
    cells = [Cell() for _ in offsets]
    for step in range(600):
        x = [dice.random() for _ in theta]
        c = 1.0 + dice.random()
        y = dot(x, theta) + offsets[step % 3] * c
        cells[step % 3].add([*x, c, y], 1.0)
    fit = solved(*cells)
    assert fit.theta == pytest.approx(theta, abs=0.01)
    assert [cell.offset(fit.theta) for cell in cells] == pytest.approx(offsets, abs=0.01)


def test_a_common_factor_reaches_what_was_never_observed() -> None:
    cell = Cell()
    for _ in range(200):
        cell.add([1.0, 0, 0, 0, 0, 0, 0.0, 1.3], 1.0)
    theta = solved(cell).theta
    assert theta[0] == pytest.approx(1.3, abs=0.01)
    assert theta[1:] == pytest.approx([1 + 0.3 * 0.09 / 0.34] * (SIZE - 1), abs=0.01)


@given(st.lists(st.tuples(FIGURES, st.floats(0.0, 5.0), st.floats(0.0, 1.0)), max_size=30))
def test_no_coefficient_is_negative(steps: list[tuple[list[float], float, float]]) -> None:
    cell = Cell()
    for x, y, weight in steps:
        cell.add([*x, 1.0, y], weight)
    assert all(0.0 <= each < 1e6 for each in solved(cell).theta)


@given(st.lists(FIGURES, max_size=20))
def test_the_changes_of_a_cell_add_up_to_its_part(steps: list[list[float]]) -> None:
    cell = Cell()
    total = list(cell.part)
    for x in steps:
        total = [a + b for a, b in zip(total, cell.add([*x, 1.0, 1.0], 1.0), strict=True)]
    assert total == pytest.approx(cell.part, abs=1e-9)


def test_an_offset_is_the_surer_the_more_was_observed() -> None:
    cell = Cell()
    seen = [cell.variance]
    for _ in range(20):
        cell.add([1.0] * (SIZE + 2), 1.0)
        seen.append(cell.variance)
    assert seen[0] == UNKNOWN
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < UNKNOWN / 100
