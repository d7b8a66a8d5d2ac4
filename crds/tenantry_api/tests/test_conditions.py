"""Conditions keep the time at which they last changed."""

from pathlib import Path

from tenantry_api.conditions import (
    MESSAGE_LIMIT,
    Condition,
    ConditionType,
    Reason,
    State,
    read,
    set_condition,
)

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def a_condition(
    state: State = State.FALSE,
    time: str = EARLY,
    kind: ConditionType = ConditionType.READY,
    message: str = "",
) -> Condition:
    return Condition(kind, state, Reason.PROGRESSING, message, time, observed_generation=1)


def test_a_condition_that_stays_keeps_its_time_and_takes_the_new_message() -> None:
    (kept,) = set_condition([a_condition()], a_condition(time=LATE, message="2 of 3"))
    assert (kept.last_transition_time, kept.message) == (EARLY, "2 of 3")


def test_a_condition_that_flips_takes_the_new_time() -> None:
    (flipped,) = set_condition([a_condition()], a_condition(State.TRUE, LATE))
    assert flipped.last_transition_time == LATE


def test_a_new_condition_comes_last_and_the_others_stay() -> None:
    old = a_condition()
    new = a_condition(kind=ConditionType.ACCEPTED)
    assert set_condition([old], new) == (old, new)


def test_what_is_written_reads_back() -> None:
    condition = a_condition(message="wait")
    assert read([condition.as_dict()]) == (condition,)


def test_conditions_of_another_version_are_left_out() -> None:
    known = a_condition()
    strange = known.as_dict() | {"type": "Shiny"}
    torn = {"type": "Ready"}
    assert read([strange, torn, known.as_dict()]) == (known,)


def test_a_message_is_cut_where_the_api_server_would_refuse_it() -> None:
    message = a_condition(message="x" * 100_000).as_dict()["message"]
    assert len(message) == MESSAGE_LIMIT
    assert message.endswith("x ...")


def test_the_page_of_conditions_explains_every_condition_and_reason() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/conditions.md").read_text(encoding="utf-8")
    for word in (*ConditionType, *Reason):
        assert f"`{word}`" in page


def test_every_condition_of_the_contract_exists() -> None:
    assert {kind.value for kind in ConditionType} == {
        "Ready",
        "Reconciling",
        "Stalled",
        "Accepted",
        "SharesFeasible",
        "EngineActive",
        "FullyEnforced",
        "ObjectivesMet",
        "RolloutUnblocked",
    }
