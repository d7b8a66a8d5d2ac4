"""Learning step times, and dividing a step among those who had it."""

from math import inf, isfinite, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.prior import SHIPPED
from tenantry_core.stepmodel import WINDOW, Learned, Load, prompt_work
from tenantry_core.tests import a100
from tenantry_core.tests.loads import LOADS

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


def a_model(rounds: int = 40, *, speed: float = 1.0) -> Learned:
    model = Learned()
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


@given(st.lists(st.tuples(LOADS, st.floats(1e-9, 1e6)), max_size=60), LOADS)
def test_a_prediction_is_positive_and_grows_with_what_the_tokens_attend_to(
    history: list[tuple[Load, float]], load: Load
) -> None:
    model = Learned()
    for each, took in history:
        model.observe(each, took)
    more = Load(load.prefill, load.decodes, load.context + 64, load.work + 4096)
    assert 0 < model.predict(load) <= model.predict(more) < inf
    assert isfinite(model.doubt(load))
    assert isfinite(model.error)


@pytest.mark.parametrize("took", [0.0, -1.0, inf, nan], ids=str)
def test_a_time_that_is_none_teaches_nothing(took: float) -> None:
    model, same = a_model(), a_model()
    model.observe(STEPS[0], took)
    assert model.predict(STEPS[0]) == same.predict(STEPS[0])


TAUGHT = a_model(2)


@given(st.floats(0.0, 100.0), st.dictionaries(st.text(max_size=5), LOADS, min_size=1, max_size=20))
def test_the_parts_of_a_step_add_up_to_it(took: float, loads: dict[str, Load]) -> None:
    parts = TAUGHT.divide(took, loads)
    assert sum(parts.values()) == pytest.approx(took, rel=1e-9, abs=1e-12)
    assert parts == TAUGHT.divide(took, loads)
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
    assert Learned().divide(0.1, {}) == {}


def test_a_payer_s_own_work_is_paid_by_it_alone() -> None:
    model = a_model()
    loads = {"a": Load(prefill=64), "b": Load(prefill=64, work=1e6)}
    step = Load(prefill=128, work=1e6)
    parts = model.divide(model.predict(step), loads)
    assert parts["b"] - parts["a"] == pytest.approx(
        model.predict(step) - model.predict(Load(prefill=128))
    )


def a_mix(dice: a100.Dice) -> Load:
    """A step of a busy engine: totals at edges of tiles, sometimes decodes alone."""
    decodes = dice.integer(20, 40)
    total = dice.choice([128, 192, 256, 256, 384]) if dice.random() > 0.1 else decodes
    done = dice.integer(0, 2047)
    work = prompt_work(done, total - decodes)
    return Load(total - decodes, decodes, int(decodes * dice.uniform(1000, 1800)), work)


VISITED = (
    Load(98, 30, 42_000, prompt_work(1000, 98)),
    Load(162, 30, 42_000, prompt_work(1000, 162)),
    Load(226, 30, 42_000, prompt_work(1000, 226)),
    Load(354, 30, 42_000, prompt_work(1000, 354)),
    Load(0, 30, 42_000),
)
NEIGHBOURS = (
    Load(82, 30, 42_000, prompt_work(1000, 82)),
    Load(210, 30, 42_000, prompt_work(1000, 210)),
    Load(338, 30, 42_000, prompt_work(1000, 338)),
    Load(226, 30, 21_000, prompt_work(100, 226)),
    Load(241, 15, 21_000, prompt_work(1500, 241)),
    Load(0, 45, 65_000),
)


@pytest.mark.parametrize("bias", [0.3, 0.83, 1.0, 1.2, 3.0])
@pytest.mark.parametrize("pauses", [0.0, 0.01], ids=["noise", "noise and pauses"])
def test_200_steps_teach_the_staircase_of_a_gpu(bias: float, pauses: float) -> None:
    dice, model = a100.Dice(4), Learned(SHIPPED, bias)
    for _ in range(200):
        load = a_mix(dice)
        model.observe(load, a100.measured(load, dice, pauses))
    for load in VISITED:
        assert model.predict(load) == pytest.approx(a100.seconds(load), rel=0.03)
    for load in NEIGHBOURS:
        assert model.predict(load) == pytest.approx(a100.seconds(load), rel=0.10)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_an_engine_that_changes_is_followed_everywhere_though_one_size_is_run(
    factor: float,
) -> None:
    dice, model = a100.Dice(5), Learned()
    for _ in range(300):
        load = a_mix(dice)
        model.observe(load, a100.measured(load, dice))
    for _ in range(4 * WINDOW):
        model.observe(VISITED[2], factor * a100.measured(VISITED[2], dice))
    for load in VISITED:
        assert model.predict(load) == pytest.approx(factor * a100.seconds(load), rel=0.06)


def test_a_size_that_is_not_run_for_long_is_not_forgotten() -> None:
    dice, model = a100.Dice(6), Learned()
    for _ in range(300):
        load = a_mix(dice)
        model.observe(load, a100.measured(load, dice))
    for _ in range(5000):
        model.observe(VISITED[2], a100.measured(VISITED[2], dice))
    for load in VISITED:
        assert model.predict(load) == pytest.approx(a100.seconds(load), rel=0.04)


def test_the_doubt_is_small_where_steps_ran_and_large_where_none_did() -> None:
    dice, model = a100.Dice(7), Learned()
    for _ in range(200):
        load = a_mix(dice)
        model.observe(load, a100.measured(load, dice))
    assert model.doubt(VISITED[2]) < 0.02 * model.predict(VISITED[2])
    far = Load(1000)
    assert model.doubt(far) > 0.1 * model.predict(far)


def test_the_error_tells_noise_from_a_wrong_model() -> None:
    dice, model = a100.Dice(8), Learned()
    for _ in range(300):
        load = a_mix(dice)
        model.observe(load, a100.measured(load, dice))
    assert 0.02 < model.error < 0.08
    for _ in range(8):
        model.observe(VISITED[0], 2 * a100.seconds(VISITED[0]))
    assert model.error > 0.12
