"""The plan of a step, and who goes back when there is not enough: without vLLM."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tenantry_core import budget
from tenantry_core.budget import Ceiling, Packer
from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding
from tenantry_core.stepmodel import Learned, Load
from tenantry_engine import turn
from tenantry_engine.census import Census
from tenantry_engine.turn import Head, Member, Room, Scene, Turn

BLOCK = 16


def a_member(
    name: str, *, tag: float, done: int = 100, prompt: int = 0, movable: bool = True
) -> Member:
    """A running request: decoding, or with `prompt` tokens still to do."""
    request = SimpleNamespace(
        request_id=name,
        is_prefill_chunk=prompt > 0,
        num_computed_tokens=done,
        num_tokens=done + max(prompt, 1),
        num_tokens_with_spec=done + max(prompt, 1),
        num_output_placeholders=0,
    )
    return Member(request, Rank(0, tag, name[0]), -(-done // BLOCK), movable)


def a_head(name: str, *, tag: float, tokens: int = 30, blocks: int = 2) -> Head:
    return Head(SimpleNamespace(request_id=name), Rank(0, tag, name[0]), tokens, blocks)


def a_room(*, free_seats: int = 0, free_blocks: int = 100) -> Room:
    return Room(free_seats, 4, free_blocks, 100, BLOCK)


def names(requests: Any) -> list[str]:
    return [request.request_id for request in requests]


def a_scene(members: list[Member], head: Head | None = None, light: tuple[str, ...] = ()) -> Scene:
    owners = {member.request.request_id: member for member in members}
    census = Census(lambda request: owners[request.request_id].tenant)
    running = [member.request for member in members]
    census.take(running)
    ranks = {member.tenant: member.rank for member in members}
    return Scene(
        running=running,
        census=census,
        prompts=turn.by_rank(census.prompts, lambda each: owners[each.request_id].rank),
        head=head,
        tokens=census.decoding,
        in_order=census.behind(running),
        precedes=lambda tenants, place: any(ranks[tenant] < place for tenant in tenants),
        light=lambda: light,
    )


def ceiling_of(seconds: float | None) -> Callable[[bool], Ceiling]:
    return lambda protecting: Ceiling(seconds, 2048, protecting)


def arranged(members: list[Member], head: Head | None = None, seconds: float = 0.02) -> Turn:
    return turn.arrange(a_scene(members, head), Packer(Learned()), ceiling_of(seconds))


def order(members: list[Member], plan: Turn) -> list[str]:
    """The running list of the plan."""
    return names([m.request for m in members] if plan.visible is None else plan.visible)


def test_decodes_come_first_and_then_prompts_of_the_least_served() -> None:
    members = [
        a_member("n1", tag=9, prompt=500),
        a_member("q1", tag=1, prompt=500),
        a_member("n2", tag=9),
    ]
    plan = arranged(members)
    assert order(members, plan) == ["n2", "q1", "n1"]
    assert not plan.hidden
    assert plan.threshold == 0


def test_a_waiting_head_of_a_less_served_tenant_hides_the_prompts_of_the_others() -> None:
    members = [a_member("n1", tag=9, prompt=500), a_member("n2", tag=9)]
    plan = arranged(members, a_head("q1", tag=1, tokens=300))
    assert order(members, plan) == ["n2"]
    assert names(plan.hidden) == ["n1"]


def test_what_fits_beside_a_short_head_stays() -> None:
    members = [a_member("n1", tag=9, prompt=500), a_member("n2", tag=9, prompt=500)]
    plan = arranged(members, a_head("q1", tag=1, tokens=30), seconds=0.03)
    assert order(members, plan) == ["n1"]
    assert names(plan.hidden) == ["n2"]
    assert plan.threshold == plan.tokens - 30


def test_the_head_of_a_more_served_tenant_hides_nothing() -> None:
    members = [a_member("q1", tag=1, prompt=500)]
    plan = arranged(members, a_head("n1", tag=9))
    assert order(members, plan) == ["q1"]
    assert not plan.hidden


@pytest.mark.parametrize(
    ("quiet_tag", "light", "protects"),
    [
        (1.0, (), True),
        (20.0, (), False),
        (20.0, ("q",), True),
        (20.0, ("n",), False),
    ],
    ids=["less served", "more served", "more served but light", "the prompt's own tenant light"],
)
def test_steps_are_short_while_they_hold_decodes_to_protect(
    quiet_tag: float, light: tuple[str, ...], protects: bool
) -> None:
    members = [a_member("q1", tag=quiet_tag), a_member("n1", tag=9, prompt=4000)]
    plan = turn.arrange(a_scene(members, None, light), Packer(Learned()), ceiling_of(None))
    sizes = {
        protecting: budget.chunk(
            Learned(),
            Load(decodes=1, context=members[0].request.num_computed_tokens),
            members[1].request.num_computed_tokens,
            Ceiling(None, 2048, protecting),
        )
        for protecting in (True, False)
    }
    assert sizes[True] < sizes[False]
    assert plan.tokens == 1 + sizes[protects]


def test_a_light_tenant_s_own_prompt_does_not_open_the_step_to_the_others() -> None:
    members = [a_member("q1", tag=1), a_member("n1", tag=9, prompt=4000)]
    ceiling, head = ceiling_of(None), a_head("q2", tag=1)
    relaxed = turn.arrange(a_scene(members[1:], head), Packer(Learned()), ceiling)
    kept = turn.arrange(a_scene(members, head, ("q",)), Packer(Learned()), ceiling)
    assert kept.tokens < relaxed.tokens


def overflow(members: list[Member], room: Room) -> list[Member]:
    running = [member.request for member in members]
    return turn.overflow(arranged(members), running, members, room)


def test_nothing_goes_back_while_the_blocks_suffice() -> None:
    members = [a_member("q1", tag=1), a_member("n1", tag=9)]
    assert overflow(members, a_room(free_blocks=20)) == []


@pytest.mark.parametrize(
    ("movable", "victim"), [(True, "n2"), (False, "n1")], ids=["latest", "latest that may"]
)
def test_when_blocks_run_out_the_most_served_tenant_s_latest_goes_back(
    movable: bool, victim: str
) -> None:
    members = [
        a_member("n1", tag=9, done=32),
        a_member("n2", tag=9, done=32, movable=movable),
        a_member("q1", tag=1, done=32),
    ]
    over = overflow(members, a_room(free_blocks=1))
    assert [member.request.request_id for member in over] == [victim]


def test_the_last_running_request_never_goes_back() -> None:
    members = [a_member("n1", tag=9, done=32)]
    assert overflow(members, a_room(free_blocks=0)) == []


def holdings(**running: int) -> list[Holding]:
    tags = {"q": 1.0, "n": 9.0}
    return [Holding(Rank(0, tags[t], t), n, 1, n + 1, 1.0) for t, n in running.items()]


def test_a_seat_is_recalled_where_it_costs_least() -> None:
    members = [a_member(f"n{done}", tag=9, done=done) for done in (300, 40, 200, 500)]
    back = turn.recall(a_head("q1", tag=1), members, a_room(), holdings(q=0, n=4))
    assert [member.request.request_id for member in back] == ["n40"]


def test_blocks_come_from_the_latest_of_who_holds_more_than_its_share_of_them() -> None:
    members = [a_member(f"n{done}", tag=9, done=done) for done in (320, 480, 640)]
    head = a_head("q1", tag=1, blocks=40)
    back = turn.recall(head, members, a_room(free_seats=1, free_blocks=10), holdings(q=0, n=3))
    assert [member.request.request_id for member in back] == ["n640"]


def test_nobody_gives_back_blocks_of_its_own_share() -> None:
    members = [a_member("n320", tag=9, done=320), a_member("n480", tag=9, done=480)]
    head = a_head("q1", tag=1, blocks=60)
    room = a_room(free_seats=1, free_blocks=55)
    assert turn.recall(head, members, room, holdings(q=0, n=2)) == []


def test_nothing_is_recalled_if_it_would_not_be_enough() -> None:
    members = [a_member(f"n{done}", tag=9, done=done) for done in (320, 480)]
    head = a_head("q1", tag=1, blocks=99)
    room = a_room(free_seats=1, free_blocks=10)
    assert turn.recall(head, members, room, holdings(q=0, n=2)) == []


def test_a_step_that_cannot_be_cut_has_the_engine_s_own_limit() -> None:
    plan = turn.uncapped(arranged([a_member("n1", tag=9, prompt=500)]), 2048)
    assert (plan.tokens, plan.threshold) == (2048, 0)
