"""Weights on the real CPU engine: what they are worth while two tenants always wait.

One engine process goes through four phases; the policy file is edited in between. A warm-up is
dropped from each: the first steps teach the step model, and what ran before has to end.

Every bound is the widest error that still proves the promise, with what is known of its parts:

- Tokens, equal shapes, 5 %. What is divided is GPU time, and that comes out within 0.5 %. A token
  of either tenant costs the same but for the company in which prompts run: a step's fixed cost is
  paid by token, and whose prompt is alone in a step pays more of it. At this shape, two steps for a
  prompt, that is 0 to 3 %.
- Tokens under `Observe`, 10 %. Nobody evens them out: first come, first served gives equal numbers
  of connections equal turns, and which requests a window cuts off is chance.
- GPU seconds, unequal shapes, 10 %. The engine's own figure of what it divides; it shows a second's
  worth at once.
- Tokens over the rate of each tenant alone, 15 %. In company tokens cost otherwise than alone: the
  step's fixed cost is shared with other shapes. Rates are tokens for a CPU second of the model, and
  those alone medians of short windows in turn: a neighbour on the machine must not tell.

A window in which somebody had nothing waiting proves nothing: the machine was too busy to keep the
clients going. It is taken once more.
"""

import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from e2e.load import Load
from tenantry_engine.tests.real_shares import Engine, Window, engine

pytestmark = pytest.mark.engine
log = logging.getLogger(__name__)

BOTH = ("gold", "free")
EQUAL = "gold:256/32,free:256/32"
SHAPES = {"gold": "gold:128/16", "free": "free:384/16"}
"""Tokens in and out. A request of free takes more than twice the GPU time of one of gold, so that
shares of tokens and of time are far apart."""
EQUALS, MANY = 96, 192
"""Connections of each tenant, so many that a client may get no processor for a second and requests
still wait. More of them make turns under `Observe` so long that a window cuts them off unevenly;
where a request takes little time, it takes more of them."""
WARM_UP, SECONDS = 12.0, 60.0
ALONE_WARM_UP, ALONE_SECONDS = 2.0, 4.0
IN_TURN = ("gold", "free", "free", "gold") * 2


@dataclass(frozen=True)
class Measured:
    """The windows of all phases; `alone` has several for each tenant. `unserved` counts requests
    that the door saw refused or failed."""

    enforced: Window
    observed: Window
    unequal: Window
    alone: Mapping[str, Sequence[Window]]
    unserved: float

    def alone_rate(self, tenant: str) -> float:
        """Its rate with the whole engine."""
        return statistics.median(each.rate(tenant) for each in self.alone[tenant])

    @property
    def shared(self) -> Mapping[str, Window]:
        """Those of both tenants, by phase."""
        return {
            "enforced": self.enforced,
            "observed": self.observed,
            "unequal": self.unequal,
        }


def both(running: Engine, load: Load) -> Window:
    """A window of both tenants that is full, or the second one."""
    window = running.measure(load, BOTH, WARM_UP, SECONDS)
    return window if window.full else running.measure(load, BOTH, WARM_UP, SECONDS)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    with engine(tmp_path_factory.mktemp("shares")) as running:
        with running.load(EQUAL, EQUALS) as load:
            enforced = both(running, load)
            running.declare("Observe")
            observed = both(running, load)
        running.declare("Enforce")
        with running.load(",".join(SHAPES.values()), MANY) as load:
            unequal = both(running, load)
        alone: dict[str, list[Window]] = {tenant: [] for tenant in BOTH}
        for tenant in IN_TURN:
            with running.load(SHAPES[tenant], MANY) as load:
                alone[tenant].append(running.measure(load, (tenant,), ALONE_WARM_UP, ALONE_SECONDS))
        ends = [
            running.server.door("tenantry_requests_total", outcome=each)
            for each in ("refused", "failed")
        ]
    found = Measured(enforced, observed, unequal, alone, sum(each or 0.0 for each in ends))
    log.info("%s", found)
    return found


def test_weights_divide_the_tokens_of_equal_shapes(measured: Measured) -> None:
    assert measured.enforced.token_ratio == pytest.approx(3.0, rel=0.05)


def test_the_same_load_observed_gets_equal_tokens(measured: Measured) -> None:
    assert measured.observed.token_ratio == pytest.approx(1.0, rel=0.10)


def test_weights_divide_gpu_time_whatever_the_shapes(measured: Measured) -> None:
    assert measured.unequal.gpu_ratio == pytest.approx(3.0, rel=0.10)


def test_weights_divide_what_each_would_get_alone(measured: Measured) -> None:
    gold, free = (measured.unequal.rate(each) / measured.alone_rate(each) for each in BOTH)
    assert gold / free == pytest.approx(3.0, rel=0.15)


def test_the_shapes_tell_time_from_tokens(measured: Measured) -> None:
    # Otherwise dividing tokens would pass for dividing time.
    assert measured.unequal.token_ratio > 3.0 * 1.5


def test_everybody_waited_all_the_time_and_nothing_was_refused(measured: Measured) -> None:
    for phase, window in measured.shared.items():
        assert window.full, (phase, window)
    assert measured.unserved == 0
