"""A request may be aborted in any state, between a step and its output too, and nothing is left."""

from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])


def made(features: Any, recount: Any, use_async: bool) -> Any:
    """An engine for three tenants."""
    config = recount.configuration("FIFO")
    return features.engine(config, features.Options(), use_async=use_async)


def waiting(engine: Any, features: Any, harness: Any) -> None:  # noqa: ARG001
    """`x` has not been looked at."""
    engine.add(harness.request("x", 200, 20, tenant="gold"))


def admitted(engine: Any, features: Any, harness: Any) -> None:  # noqa: ARG001
    """`x` has been admitted in a step whose output is not back."""
    engine.add(harness.request("x", 40, 20, tenant="gold"))
    schedule(engine)


def in_its_prompt(engine: Any, features: Any, harness: Any) -> None:  # noqa: ARG001
    """A part of `x`'s prompt has been computed."""
    engine.add(harness.request("x", 900, 20, tenant="gold"))
    engine.step()
    assert engine.scheduler.requests["x"].is_prefill_chunk


def decoding(engine: Any, features: Any, harness: Any) -> None:
    """`x` makes tokens."""
    engine.add(harness.request("x", 40, 20, tenant="gold"))
    for _ in range(5):
        engine.step()
    assert engine.scheduler.requests["x"].status is features.RUNNING


def under_way(engine: Any, features: Any, harness: Any) -> None:
    """`x` makes tokens, and the next is under way."""
    decoding(engine, features, harness)
    schedule(engine)


def preempted(engine: Any, features: Any, harness: Any) -> None:
    """`x` has been sent back."""
    decoding(engine, features, harness)
    engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert engine.scheduler.requests["x"].status is features.PREEMPTED


def without_a_grammar(engine: Any, features: Any, harness: Any) -> None:  # noqa: ARG001
    """`x`'s grammar is being compiled."""
    each, _ = features.structured("x", 40, 20, tenant="gold")
    engine.add(each)
    engine.step()


def between_parts(engine: Any, features: Any, harness: Any) -> None:  # noqa: ARG001
    """`x` waits for more input."""
    engine.add(features.part("x", 40, 2, tenant="gold"))
    for _ in range(6):
        engine.step()
    assert engine.scheduler.requests["x"].status is features.WAITS_FOR_INPUT


def schedule(engine: Any) -> None:
    """A step whose output is not back."""
    output = engine.scheduler.schedule()
    assert "x" in output.num_scheduled_tokens
    engine.flying.append((output, engine._answer(output), 0.01))


STATES = (
    waiting,
    admitted,
    in_its_prompt,
    decoding,
    under_way,
    preempted,
    without_a_grammar,
    between_parts,
)


@BOTH
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_request_may_be_aborted_in_any_state_and_twice(
    features: Any, recount: Any, harness: Any, state: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    engine.add(harness.request("other", 40, 30, tenant="silver"))
    engine.step()
    state(engine, features, harness)
    for _ in range(2):
        engine.scheduler.finish_requests("x", harness.ABORTED)
    engine.drain()
    engine.scheduler.finish_requests("x", harness.ABORTED)
    engine.step()
    assert engine.tokens_by_request["other"] == 30
    harness.assert_empty(engine)
    assert not engine.conductor.queue.counts
    assert not any(engine.values("tenantry_running_requests").values())
    assert not any(engine.values("tenantry_waiting_requests").values())


def test_an_id_that_is_taken_changes_nothing_for_the_request_that_has_it(
    features: Any, recount: Any, harness: Any
) -> None:
    engine = made(features, recount, use_async=False)
    engine.add(harness.request("a", 40, 8, tenant="gold"))
    engine.step()
    with pytest.raises(AssertionError, match="duplicate request id"):
        engine.scheduler.add_request(harness.request("a", 40, 8, tenant="silver"))
    engine.drain()
    tokens = engine.values("tenantry_tokens")
    assert (tokens["gold", "output"], tokens["silver", "output"]) == (8, 0)
    harness.assert_empty(engine)
