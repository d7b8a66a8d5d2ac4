import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tenantry_core.placement import TEXTS, Misfit
from tenantry_extender import manifests
from tenantry_extender.books import Books, Kind
from tenantry_extender.poke import TOO_LARGE, Pauses, Poker
from tenantry_extender.tests.builders import (
    GPU,
    Body,
    a_node,
    a_pod,
    a_policy,
    books_of,
    some_pods,
    two_policies,
)
from tenantry_extender.verbs import NoAnswer, Refused

REFUSED = f"0/1 nodes are available: 1 {TEXTS[Misfit.OVER_SHARE]}."
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


@dataclass
class FakeApi:
    """Writes down what was written to pods; fails as told."""

    error: Exception | None = None
    pokes: list[tuple[str, str]] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)
    poked: asyncio.Event = field(default_factory=asyncio.Event)

    async def poke(self, namespace: str, name: str, at: str) -> None:
        assert namespace == "llm"
        self.pokes.append((name, at))
        self.poked.set()
        if self.error is not None:
            raise self.error

    async def explain(self, namespace: str, name: str, version: str, message: str) -> None:
        assert (namespace, version) == ("llm", "7")
        self.messages[name] = message
        if self.error is not None:
            raise self.error


@dataclass
class Desk:
    """A poker with a clock that the test moves."""

    books: Books
    api: FakeApi = field(default_factory=FakeApi)
    now: float = 0.0
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.poker = Poker(
            self.books, self.api, lambda: self.now, lambda: "now", self.outcomes.append
        )

    async def look(self, now: float) -> list[str]:
        """The names of the pods that are poked by looking at this time."""
        self.now, self.api.pokes = now, []
        await self.poker.look()
        return [name for name, _ in self.api.pokes]


def refused(name: str) -> Body:
    return a_pod(name, name[0], message=REFUSED)


def a_full_house() -> Books:
    """Two pods of `a` run, one waits refused; two of `b` run."""
    running = [a_pod(name, name[0], node="gpu-0") for name in ("a-0", "a-1", "b-0", "b-1")]
    return books_of([a_node()], [*running, refused("a-2")], [a_policy("a"), a_policy("b")])


def the_pod_is_gone(books: Books) -> None:
    books.remove(Kind.PODS, a_pod("b-1", "b"))


def a_node_comes(books: Books) -> None:
    books.put(Kind.NODES, a_node("gpu-1", 1))


@pytest.mark.parametrize("change", [the_pod_is_gone, a_node_comes], ids=lambda f: f.__name__)
async def test_a_refused_pod_is_poked_when_its_turn_comes(change: Callable[[Books], None]) -> None:
    desk = Desk(a_full_house())
    assert await desk.look(0.0) == []
    change(desk.books)
    assert await desk.look(1.0) == ["a-2"]
    assert desk.outcomes == ["poked"]


async def test_an_edited_weight_pokes_those_whose_share_it_frees() -> None:
    books = books_of(
        [a_node()],
        [
            *[a_pod(name, name[0], node="gpu-0") for name in ("a-0", "a-1", "b-0")],
            refused("a-2"),
            refused("b-1"),
        ],
        [a_policy("a"), a_policy("b")],
    )
    desk = Desk(books)
    assert await desk.look(0.0) == ["b-1"]
    books.put(Kind.POLICIES, a_policy("a", 3))
    assert await desk.look(1.0) == ["a-2"]


async def test_an_expired_hold_pokes_who_waited_for_it() -> None:
    books = books_of([a_node(gpus=1)], [a_pod("a-0", "a"), refused("b-0")], [a_policy("a")])
    books.put(Kind.POLICIES, a_policy("b"))
    books.hold(books.snapshot.pods["uid-a-0"], "gpu-0", 0.0)
    desk = Desk(books)
    assert await desk.look(29.0) == []
    books.remove(Kind.PODS, a_pod("a-0"))
    assert await desk.look(30.0) == ["b-0"]


async def test_pods_that_kube_scheduler_tries_anyway_are_left_alone() -> None:
    pods = [a_pod("a-0", "a"), a_pod("a-1", "a", message=FULL), refused("a-2")]
    desk = Desk(books_of([a_node()], pods, [a_policy("a")]))
    assert await desk.look(0.0) == ["a-2"]


async def test_a_pod_is_poked_again_after_growing_pauses() -> None:
    desk = Desk(books_of([a_node()], [refused("a-0")], [a_policy("a")]))
    poked_at = [now for now in range(40) if await desk.look(float(now)) == ["a-0"]]
    assert poked_at == [0, 1, 3, 7, 15, 31]


def test_pauses_grow_to_a_minute_and_are_forgotten_with_their_reason() -> None:
    pauses, pod = Pauses(), manifests.pod(refused("a-0"))
    ripe_at = [now for now in range(300) if pauses.ripe([pod], now)]
    assert ripe_at[-3:] == [123, 183, 243]
    assert pauses.ripe([], 300) == ()
    assert pauses.ripe([pod], 300) == (pod,)


@pytest.mark.parametrize("error", [Refused("HTTP 404"), NoAnswer("lost")], ids=str)
async def test_a_failed_poke_is_counted_and_tried_again(error: Exception) -> None:
    desk = Desk(books_of([a_node()], [refused("a-0")], [a_policy("a")]), FakeApi(error))
    assert await desk.look(0.0) == ["a-0"]
    desk.api.error = None
    assert await desk.look(1.0) == ["a-0"]
    assert desk.outcomes == ["failed", "poked"]


async def test_our_reason_is_added_where_kube_scheduler_finds_full_nodes_itself() -> None:
    books = a_full_house()
    books.put(Kind.PODS, a_pod("a-2", "a", message=FULL))
    desk = Desk(books)
    assert await desk.look(0.0) == []
    assert desk.api.messages == {"a-2": f"{FULL} {TEXTS[Misfit.OVER_SHARE]}."}


@pytest.mark.parametrize(
    ("pod", "others"),
    [
        pytest.param(refused("a-2"), True, id="it is there already"),
        pytest.param(a_pod("a-2", "a"), True, id="not tried yet"),
        pytest.param(a_pod("a-2", "a", message="Insufficient cpu"), True, id="another reason"),
        pytest.param(a_pod("a-2", "a", message=FULL, reason="SchedulerError"), True, id="an error"),
        pytest.param(a_pod("b-2", "b", message=FULL), True, id="under its share"),
        pytest.param(a_pod("a-2", "a", message=FULL), False, id="nobody else is there"),
    ],
)
async def test_our_reason_is_added_only_where_it_is_the_reason(pod: Body, others: bool) -> None:
    running = [a_pod(f"a-x{n}", "a", node="gpu-0") for n in range(3 if others else 4)]
    others_run = [a_pod("b-0", "b", node="gpu-0")] if others else []
    books = books_of([a_node()], [*running, *others_run, pod], [a_policy("a"), a_policy("b")])
    desk = Desk(books)
    await desk.look(0.0)
    assert desk.api.messages == {}


async def test_a_pod_that_is_larger_than_every_node_is_told_so() -> None:
    books = a_full_house()
    books.put(Kind.PODS, a_pod("a-2", "a", message=FULL, resources={GPU: "8"}))
    books.put(Kind.PODS, a_pod("a-3", "a", resources={GPU: "8"}))  # not tried yet
    desk = Desk(books)
    await desk.look(0.0)
    assert desk.api.messages == {"a-2": f"{FULL} {TOO_LARGE}."}


@pytest.mark.parametrize("error", [Refused("HTTP 409"), NoAnswer("lost")], ids=str)
async def test_a_reason_that_cannot_be_written_is_written_later(error: Exception) -> None:
    books = a_full_house()
    books.put(Kind.PODS, a_pod("a-2", "a", message=FULL))
    desk = Desk(books, FakeApi(error))
    await desk.look(0.0)
    desk.api.messages.clear()
    await desk.look(0.5)
    assert desk.api.messages == {}
    await desk.look(1.0)
    assert list(desk.api.messages) == ["a-2"]


async def test_a_change_of_the_books_wakes_the_poker() -> None:
    desk = Desk(a_full_house())
    desk.books.changed = desk.poker.wake
    task = asyncio.create_task(desk.poker.run())
    the_pod_is_gone(desk.books)
    async with asyncio.timeout(5):
        await desk.api.poked.wait()
    task.cancel()
    assert desk.api.pokes == [("a-2", "now")]


async def test_a_pod_that_never_uses_its_turn_is_set_aside_and_gets_another_chance() -> None:
    books = two_policies(a_pods=0, b_pods=0)
    for body in [*some_pods("a", 4), *[refused(f"b-{n}") for n in range(4)]]:
        books.put(Kind.PODS, body)
    desk = Desk(books)
    assert await desk.look(0.0) == ["b-0", "b-1"]
    await desk.look(59.0)
    assert books.snapshot.aside == frozenset()
    assert "b-2" not in await desk.look(30.0)
    await desk.look(60.0)
    assert {"uid-a-0", "uid-a-1"} <= books.snapshot.aside
    await desk.look(400.0)
    assert "uid-a-0" not in books.snapshot.aside
