"""How many prompt tokens a step may hold, and how much may be thrown away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import budget
from tenantry_core.budget import Allowance, Ceiling
from tenantry_core.stepmodel import Load, StepModel

DECODES = Load(decodes=12, context=6000)
ENGINE = 2048


def a_model(fixed: float, token: float) -> StepModel:
    """A model that has seen an engine with these costs; a decode costs twice a prefill token."""
    model = StepModel()
    for i in range(300):
        load = Load(prefill=(i * 37) % 400, decodes=(i * 5) % 17, context=3000)
        model.observe(load, fixed + token * (load.prefill + 2 * load.decodes))
    return model


def time_of(model: StepModel, tokens: int) -> float:
    return model.predict(DECODES + Load(prefill=tokens, context=tokens))


@pytest.mark.parametrize("ceiling", [0.012, 0.02, 0.05], ids=["12ms", "20ms", "50ms"])
def test_a_step_keeps_its_ceiling_and_uses_it(ceiling: float) -> None:
    model = a_model(0.003, 1e-4)
    tokens = budget.chunk(model, DECODES, 0, Ceiling(ceiling, ENGINE))
    assert time_of(model, tokens) <= ceiling
    assert time_of(model, tokens + budget.QUANTUM) > ceiling


@pytest.mark.parametrize("protecting", [True, False], ids=["protecting", "relaxed"])
@pytest.mark.parametrize("speed", [0.02, 1.0, 10.0], ids=["gpu", "cpu", "slow cpu"])
def test_auto_allows_the_same_multiple_of_the_decodes_on_every_engine(
    speed: float, protecting: bool
) -> None:
    model = a_model(0.003 * speed, 1e-4 * speed)
    tokens = budget.chunk(model, DECODES, 0, Ceiling(None, ENGINE, protecting))
    factor = budget.PROTECTING if protecting else budget.RELAXED
    assert factor * 0.8 <= time_of(model, tokens) / model.predict(DECODES) <= factor


def test_auto_without_decodes_measures_itself_against_one() -> None:
    model = a_model(0.003, 1e-4)
    tokens = budget.chunk(model, Load(), 0, Ceiling(None, ENGINE))
    limit = budget.PROTECTING * model.predict(Load(decodes=1))
    assert tokens == budget.FLOOR or model.predict(Load(prefill=tokens, context=tokens)) <= limit


def test_a_ceiling_that_cannot_be_kept_leaves_the_floor() -> None:
    model = a_model(0.05, 1e-3)
    assert budget.chunk(model, DECODES, 0, Ceiling(0.001, ENGINE)) == budget.FLOOR


@given(
    st.integers(0, 4096),
    st.integers(0, 300),
    st.one_of(st.none(), st.floats(0.0001, 10.0)),
    st.integers(0, 4096),
)
def test_a_step_never_holds_more_than_the_engine_allows(
    tokens: int, decodes: int, seconds: float | None, context: int
) -> None:
    load = Load(decodes=decodes, context=decodes * 100)
    chunk = budget.chunk(StepModel(), load, context, Ceiling(seconds, tokens))
    assert 0 <= chunk <= max(tokens - decodes, 0)


def test_the_allowance_of_a_window_comes_back_when_it_has_passed() -> None:
    allowance = Allowance(share=0.05, window=60.0)
    assert allowance.allows(3.0, now=0.0)
    allowance.spend(2.0, now=0.0)
    assert not allowance.allows(1.5, now=30.0)
    assert allowance.allows(1.0, now=30.0)
    assert allowance.allows(3.0, now=60.0)


def test_asking_for_an_allowance_spends_nothing() -> None:
    allowance = Allowance(share=0.5, window=10.0)
    assert all(allowance.allows(5.0, now=float(second)) for second in range(5))
