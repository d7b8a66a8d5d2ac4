"""How many prompt tokens a step may hold, and how much may be thrown away."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import budget
from tenantry_core.budget import Allowance, Ceiling, Packer, Relief
from tenantry_core.probes import Probe
from tenantry_core.stepmodel import Learned, Load, Payer, StepTimes, prompt_work
from tenantry_core.tests import a100

DECODES = Load(decodes=12, context=6000)
ENGINE = 2048
BUCKET = 16


class Sure:
    """A model that knows what `seconds` says."""

    def __init__(self, slow: Mapping[int, float] | None = None) -> None:
        self.slow = dict(slow or {})

    def predict(self, load: Load) -> float:
        return a100.seconds(load) * self.slow.get(load.tokens, 1.0)

    def observe(self, load: Load, seconds: float) -> None:
        raise AssertionError((load, seconds))

    def divide(self, seconds: float, loads: Mapping[Payer, Load]) -> dict[Payer, float]:
        raise AssertionError((seconds, loads))


class Known(Sure):
    """The same, and how sure it is of it."""

    def __init__(self, slow: Mapping[int, float] | None = None, doubt: float = 0.0) -> None:
        super().__init__(slow)
        self._doubt = doubt

    def doubt(self, load: Load) -> float:
        return self._doubt * self.predict(load)


def a_model(fixed: float, token: float) -> Learned:
    """A model that has seen an engine with these costs; a decode costs twice a prefill token."""
    model = Learned()
    for i in range(300):
        chunk = (i * 37) % 400
        load = Load(chunk, (i * 5) % 17, 3000, prompt_work(0, chunk))
        model.observe(load, fixed + token * (load.prefill + 2 * load.decodes))
    return model


def time_of(model: Learned, tokens: int) -> float:
    return model.predict(DECODES + Load(prefill=tokens, work=prompt_work(0, tokens)))


@pytest.mark.parametrize("ceiling", [0.012, 0.02, 0.04], ids=["12ms", "20ms", "40ms"])
def test_a_step_keeps_its_ceiling_and_uses_it(ceiling: float) -> None:
    model = a_model(0.003, 1e-4)
    tokens = budget.chunk(model, DECODES, 0, Ceiling(ceiling, ENGINE))
    assert time_of(model, tokens) <= ceiling
    assert time_of(model, tokens + BUCKET) > ceiling


@pytest.mark.parametrize("speed", [0.02, 1.0, 10.0], ids=["gpu", "cpu", "slow cpu"])
def test_auto_allows_the_same_multiple_of_one_decode_on_every_engine(speed: float) -> None:
    model = a_model(0.003 * speed, 1e-4 * speed)
    tau = model.predict(Load(decodes=1))
    few = Load(decodes=2, context=1000)
    tokens = budget.chunk(model, few, 0, Ceiling(None, ENGINE))
    times = model.predict(few + Load(tokens, work=prompt_work(0, tokens))) / tau
    assert 0.7 * budget.PROTECTING <= times <= budget.PROTECTING * (1 + budget.OVER)


def test_without_decodes_to_protect_steps_are_as_long_as_pays() -> None:
    ceiling = Ceiling(None, ENGINE, protecting=False)
    few = Load(decodes=5, context=2000)
    for model, least, most in ((Known(), 3.5, 4.7), (a_model(0.003, 1e-4), 5.5, 10.3)):
        chunk = Packer(model).chunk(few, 0, ceiling)
        step = model.predict(few + Load(chunk, work=prompt_work(0, chunk)))
        assert least <= step / model.predict(Load(decodes=1)) <= most


@pytest.mark.parametrize(
    ("share", "late", "taus"),
    [
        (0.5, 0.0, budget.PROTECTING),
        (0.5, 0.6, budget.PROTECTING),
        (0.5, 0.95, 2.15),
        (0.5, 5.0, 2.15),
        (1 / 64, 0.0, budget.PROTECTING),
        (1 / 64, 1.0, 2.15),
        (0.9, 0.0, budget.PROTECTING),
        (0.9, 1.0, 1.4),
        (4 / 7, 1.0, 1.88),
    ],
)
def test_the_ceiling_comes_down_while_tokens_are_late(
    share: float, late: float, taus: float
) -> None:
    model = Known()
    ceiling = Ceiling(None, ENGINE, share=share, late=late)
    tau = model.predict(Load(decodes=1))
    assert budget.limit(model, ceiling) / tau == pytest.approx(taus, abs=0.01)


@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.floats(0.001, 1.0))
def test_the_later_the_tokens_the_lower_the_ceiling(one: float, two: float, share: float) -> None:
    low, high = sorted((one, two))
    less, more = (Ceiling(None, ENGINE, share=share, late=late) for late in (high, low))
    assert budget.limit(Known(), less) <= budget.limit(Known(), more)


def test_no_step_is_longer_than_what_somebody_was_promised() -> None:
    ceiling = Ceiling(None, ENGINE, objective=0.02)
    assert budget.limit(Known(), ceiling) == 0.02
    assert budget.limit(Known(), replace(ceiling, raised=2.0)) == 0.02
    tokens = budget.chunk(Known(), DECODES, 0, ceiling)
    assert a100.seconds(DECODES + Load(tokens, work=prompt_work(0, tokens))) <= 0.02


def test_a_given_budget_is_taken_as_it_is() -> None:
    ceiling = Ceiling(0.05, ENGINE, share=0.9, late=1.0, objective=0.01, raised=2.0)
    assert budget.limit(Known(), ceiling) == 0.05


BUSY = Load(decodes=30, context=36_000)


@pytest.mark.parametrize(
    ("milliseconds", "total"),
    [(19.0, 128), (23.0, 128), (27.5, 256), (29.0, 256), (33.0, 256), (38.5, 384)],
)
def test_of_the_sizes_under_the_ceiling_the_best_tile_is_taken_and_not_the_largest(
    milliseconds: float, total: int
) -> None:
    chunk = budget.chunk(Known(), BUSY, 0, Ceiling(milliseconds / 1000, ENGINE))
    assert chunk + BUSY.tokens == total


def test_a_ceiling_is_missed_by_a_little_for_a_much_better_tile() -> None:
    limit = budget.limit(Known(), Ceiling(None, ENGINE))
    step = BUSY + Load(226, work=prompt_work(0, 226))
    more = int((1.02 * limit - a100.seconds(step)) / a100.CONTEXT)
    loaded = replace(BUSY, context=BUSY.context + more)
    assert budget.chunk(Known(), loaded, 0, Ceiling(None, ENGINE)) == 226
    assert budget.chunk(Known(), loaded, 0, Ceiling(limit, ENGINE)) < 226


def test_a_ceiling_that_cannot_be_kept_leaves_the_floor() -> None:
    model = a_model(0.05, 1e-3)
    assert budget.chunk(model, DECODES, 0, Ceiling(0.001, ENGINE)) == budget.FLOOR


def test_a_late_step_is_made_worth_its_while() -> None:
    many = Load(decodes=40, context=170_000)
    tokens = budget.chunk(Known(), many, 0, Ceiling(None, ENGINE))
    floor = a100.seconds(many + Load(budget.FLOOR))
    assert floor > budget.limit(Known(), Ceiling(None, ENGINE))
    assert tokens + many.tokens == 128


def test_auto_without_decodes_measures_itself_against_one() -> None:
    model = Known()
    tokens = budget.chunk(model, Load(), 0, Ceiling(None, ENGINE))
    load = Load(tokens, work=prompt_work(0, tokens))
    assert model.predict(load) <= budget.PROTECTING * model.predict(Load(decodes=1)) * 1.03
    assert tokens == 256


LOADS = st.builds(Load, decodes=st.integers(0, 300), context=st.integers(0, 100_000))
CEILINGS = st.builds(
    Ceiling,
    st.one_of(st.none(), st.floats(0.0001, 10.0)),
    st.integers(0, 4096),
    st.booleans(),
    st.floats(0.0, 1.0),
    st.floats(0.0, 2.0),
    st.floats(0.0001, 1.0),
    st.floats(1.0, 3.0),
)


@given(st.lists(st.tuples(LOADS, st.integers(0, 4096), CEILINGS), min_size=1, max_size=40))
def test_a_step_never_holds_more_than_the_engine_allows(
    steps: list[tuple[Load, int, Ceiling]],
) -> None:
    packer = Packer(Learned())
    for load, context, ceiling in steps:
        room = max(ceiling.tokens - load.decodes, 0)
        assert 0 <= packer.chunk(load, context, ceiling) <= room
        assert min(budget.FLOOR, room) <= budget.chunk(packer.model, load, context, ceiling) <= room


def test_noise_does_not_flip_the_size() -> None:
    model = Known()
    packer = Packer(model)
    ceiling = Ceiling(0.028, ENGINE)
    first = packer.chunk(BUSY, 0, ceiling)
    for step in range(100):
        model.slow = {256: 1.0 + 0.01 * (step % 2), 240: 0.99}
        assert packer.chunk(BUSY, 0, ceiling) == first


def test_a_size_that_looks_bad_is_tried_while_that_is_uncertain_and_seldom() -> None:
    sure, unsure = (Known({256: 1.2}, doubt) for doubt in (0.005, 0.1))
    ceiling = Ceiling(0.028, ENGINE)
    for model, least, most in ((sure, 0, 0), (unsure, 1, 4)):
        packer = Packer(model)
        chunks = [packer.chunk(BUSY, 0, ceiling) for _ in range(budget.EXPLORE * 32)]
        assert least <= chunks.count(226) <= most


def probes(ceiling: Ceiling, steps: int, model: StepTimes) -> Counter[Probe]:
    packer = Packer(model)
    found = Counter[Probe]()
    for _ in range(steps):
        probe = packer.probe(ceiling)
        found[probe] += 1
        packer.ran(probe)
        if probe == Probe.NONE:
            packer.chunk(BUSY, 0, ceiling)
    return found


def test_what_a_busy_engine_never_runs_is_run_now_and_then_and_ever_more_seldom() -> None:
    model, free = Known(doubt=0.1), Ceiling(None, ENGINE, protecting=False)
    few, many = (probes(free, steps, model) for steps in (3_000, 30_000))
    assert few[Probe.ONE] > 30
    assert abs(few[Probe.DECODES] - few[Probe.PROMPTS]) <= 1
    assert few[Probe.DECODES] > 60
    assert many.total() - many[Probe.NONE] < 4 * (few.total() - few[Probe.NONE])


def test_decodes_that_are_protected_never_wait_for_a_step_of_prompts() -> None:
    found = probes(Ceiling(None, ENGINE), 3_000, Known(doubt=0.1))
    assert set(found) == {Probe.NONE, Probe.ONE}


def test_what_is_due_stays_so_until_it_ran() -> None:
    packer, free = Packer(Known(doubt=0.1)), Ceiling(None, ENGINE, protecting=False)
    while (due := packer.probe(free)) is Probe.NONE:
        packer.ran(due)
    for _ in range(3):
        packer.ran(Probe.NONE)  # something came in between
        assert packer.probe(free) is due
    packer.ran(due)
    assert packer.probe(free) is Probe.NONE


def test_nothing_is_tried_where_nothing_is_learned_or_the_budget_is_given() -> None:
    assert set(probes(Ceiling(None, ENGINE), 500, Sure())) == {Probe.NONE}
    assert set(probes(Ceiling(0.03, ENGINE), 500, Known(doubt=0.1))) == {Probe.NONE}


def test_late_first_tokens_that_get_later_raise_the_ceiling_and_no_further_than_twice() -> None:
    relief = Relief(patience=1.0)
    rising = [relief.see(0.5 * second, float(second)) for second in range(60)]
    assert rising[2] == 1.0
    assert rising == sorted(rising)
    assert rising[-1] == budget.RAISED
    assert [relief.see(0.2, 60.0 + second) for second in range(30)][-1] == 1.0


def test_first_tokens_that_are_late_but_catch_up_leave_the_ceiling() -> None:
    relief = Relief(patience=1.0)
    assert all(relief.see(30.0 - 0.5 * second, float(second)) <= 1.1 for second in range(40))


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
