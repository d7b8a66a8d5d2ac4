"""Learning step times, and dividing a step among those who had it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.stepmodel import Load, StepModel

LOADS = st.builds(
    Load,
    prefill=st.integers(0, 2048),
    decodes=st.integers(0, 256),
    context=st.integers(0, 200_000),
)
STEPS = (
    Load(prefill=64, decodes=8, context=4000),
    Load(prefill=0, decodes=12, context=6000),
    Load(prefill=256, decodes=3, context=1000),
    Load(prefill=16, decodes=30, context=20000),
    Load(prefill=128, decodes=0, context=300),
)


def seconds(load: Load, *, speed: float = 1.0) -> float:
    work = 0.003 + 170e-6 * load.prefill + 300e-6 * load.decodes + 2e-8 * load.context
    return work * speed


def a_model(rounds: int = 40, *, speed: float = 1.0) -> StepModel:
    model = StepModel()
    for _ in range(rounds):
        for load in STEPS:
            model.observe(load, seconds(load, speed=speed))
    return model


@pytest.mark.parametrize("speed", [0.05, 1.0, 20.0], ids=["fast", "usual", "slow"])
def test_a_few_dozen_steps_teach_the_time_of_any_engine(speed: float) -> None:
    model = a_model(speed=speed)
    for load in (*STEPS, Load(prefill=100, decodes=10, context=5000)):
        assert model.predict(load) == pytest.approx(seconds(load, speed=speed), rel=0.05)


def test_an_engine_that_becomes_slower_is_noticed() -> None:
    model = a_model()
    for _ in range(40):
        for load in STEPS:
            model.observe(load, seconds(load, speed=2.0))
    assert model.predict(STEPS[0]) == pytest.approx(seconds(STEPS[0], speed=2.0), rel=0.1)


def test_one_pause_does_not_spoil_what_was_learned() -> None:
    model = a_model()
    model.observe(STEPS[0], 60.0)
    assert model.predict(STEPS[0]) < 2 * seconds(STEPS[0])


def test_equal_steps_for_hours_keep_the_prediction() -> None:
    model = a_model()
    for _ in range(5000):
        model.observe(STEPS[1], seconds(STEPS[1]))
    assert model.predict(STEPS[1]) == pytest.approx(seconds(STEPS[1]), rel=0.01)
    assert model.predict(STEPS[2]) == pytest.approx(seconds(STEPS[2]), rel=0.3)


@given(st.lists(st.tuples(LOADS, st.floats(1e-5, 10.0)), max_size=60), LOADS)
def test_a_prediction_is_positive_and_grows_with_the_load(
    history: list[tuple[Load, float]], load: Load
) -> None:
    model = StepModel()
    for each, took in history:
        model.observe(each, took)
    more = load + Load(prefill=64, decodes=1, context=64)
    assert 0 < model.predict(load) <= model.predict(more)


@given(st.floats(0.0, 100.0), st.dictionaries(st.text(max_size=5), LOADS, min_size=1, max_size=20))
def test_the_parts_of_a_step_add_up_to_it(took: float, loads: dict[str, Load]) -> None:
    parts = a_model(2).divide(took, loads)
    assert sum(parts.values()) == pytest.approx(took, rel=1e-12, abs=1e-12)
    assert all(part >= -1e-12 for part in parts.values())
    assert parts.keys() == loads.keys()


def test_equal_loads_pay_alike() -> None:
    parts = a_model().divide(0.03, {"a": STEPS[0], "b": STEPS[0]})
    assert parts["a"] == pytest.approx(parts["b"]) == pytest.approx(0.015)


def test_a_decode_beside_a_large_prefill_pays_little() -> None:
    loads = {"chat": Load(decodes=1, context=100), "document": Load(prefill=512, context=512)}
    parts = a_model().divide(0.1, loads)
    assert parts["chat"] < 0.02 * parts["document"]


def test_nobody_pays_for_a_step_without_payers() -> None:
    assert StepModel().divide(0.1, {}) == {}
