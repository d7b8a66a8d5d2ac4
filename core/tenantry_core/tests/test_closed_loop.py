"""Budget and model together: steps short and yet efficient, whatever the prior was."""

import pytest

from tenantry_core import budget
from tenantry_core.budget import Ceiling
from tenantry_core.prior import SHIPPED
from tenantry_core.stepmodel import Learned, Load
from tenantry_core.tests import a100
from tenantry_core.tests.closed_loop import ENGINE, Outcome, Sized, best_fixed, run

TAU = a100.seconds(Load(decodes=1))
CEILING = budget.PROTECTING * TAU
MEAN = Load(decodes=30, context=37_700)
AUTO = Ceiling(None, ENGINE)
BEST = best_fixed(MEAN, CEILING)


def learned(seed: int = 1, bias: float = 1.0, ceiling: Ceiling = AUTO) -> Outcome:
    return run(Sized(Learned(SHIPPED, bias), ceiling), seed, seconds=30.0)


@pytest.mark.parametrize("bias", [0.3, 0.83, 1.0, 1.2, 3.0])
def test_steps_are_short_and_as_efficient_as_the_best_chunk(bias: float) -> None:
    outcome = learned(bias=bias)
    assert outcome.p99 <= 0.031
    assert outcome.mean <= CEILING * (1 + budget.OVER)
    assert outcome.rate >= 0.97 * BEST


def test_with_two_milliseconds_more_the_next_tile_is_used() -> None:
    ceiling = 2.54 * TAU
    outcome = learned(4, ceiling=Ceiling(None, ENGINE, raised=2.54 / budget.PROTECTING))
    assert outcome.p99 <= 0.0315
    assert outcome.rate >= 0.97 * best_fixed(MEAN, ceiling)
    inside = sum(count for total, count in outcome.totals.items() if 192 < total <= 256)
    assert inside > 0.95 * sum(outcome.totals.values())


def test_a_lower_ceiling_is_kept_at_the_price_of_a_tile() -> None:
    outcome = learned(ceiling=Ceiling(None, ENGINE, late=1.0))
    assert outcome.p99 <= 0.0285
    assert outcome.rate >= 0.95 * best_fixed(MEAN, budget.EASED * TAU)
