from dataclasses import dataclass, field
from typing import Any

import pytest

from tenantry_core.placement import TEXTS, Misfit
from tenantry_extender import verbs, wire
from tenantry_extender.books import Books, Kind
from tenantry_extender.tests.builders import (
    GPU,
    SHARED,
    Body,
    a_node,
    a_pod,
    a_policy,
    a_question,
    a_sharing_node,
    books_of,
    some_pods,
    two_policies,
)
from tenantry_extender.verbs import Answer, NoAnswer, Refused


def ask(books: Books, pod: Body, *nodes: str) -> Answer:
    return verbs.filter_nodes(wire.Args.model_validate(a_question(pod, *nodes)), books.snapshot)


def filtered(answer: Answer) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Nodes that passed, that failed, and that failed for good."""
    assert isinstance(answer.reply, wire.FilterResult)
    assert answer.reply.error == ""
    return answer.reply.node_names or [], answer.reply.failed, answer.reply.unresolvable


def hold(books: Books, *names: str) -> None:
    for name in names:
        books.hold(books.snapshot.pods[f"uid-{name}"], "gpu-0", 0.0)


@pytest.mark.parametrize(
    ("held", "asking", "misfit"),
    [
        pytest.param((), "a-0", None, id="first"),
        pytest.param(("a-0",), "a-1", None, id="up to its share"),
        pytest.param(("a-0",), "a-3", None, id="whichever pod of the policy asks"),
        pytest.param(("a-0", "a-1"), "a-2", Misfit.OVER_SHARE, id="over it while others wait"),
        pytest.param(("a-0", "a-1"), "b-0", None, id="the others pass"),
        pytest.param(("a-0", "a-1", "b-0", "b-1"), "a-2", Misfit.NO_ROOM, id="full"),
    ],
)
def test_filter_gives_each_policy_its_share(
    held: tuple[str, ...], asking: str, misfit: Misfit | None
) -> None:
    books = two_policies()
    hold(books, *held)
    passed, failed, closed = filtered(ask(books, a_pod(asking, asking[0])))
    assert passed == ([] if misfit else ["gpu-0"])
    assert failed == ({"gpu-0": TEXTS[misfit]} if misfit else {})
    assert closed == {}


def test_over_its_share_a_policy_borrows_what_is_idle() -> None:
    books = two_policies(b_pods=0)
    hold(books, "a-0", "a-1")
    assert filtered(ask(books, a_pod("a-2", "a")))[0] == ["gpu-0"]


def test_a_retry_of_a_pod_with_a_hold_is_judged_without_it() -> None:
    books = two_policies()
    hold(books, "a-0", "a-1")
    assert filtered(ask(books, a_pod("a-1", "a")))[0] == ["gpu-0"]


def test_a_pod_without_gpus_passes_everywhere_also_where_the_books_know_nothing() -> None:
    pod = a_pod("web", resources={"cpu": "1"})
    assert filtered(ask(books_of(), pod, "cpu-0", "new"))[0] == ["cpu-0", "new"]


def test_each_node_has_its_own_reason() -> None:
    books = books_of(
        [a_node("whole", 1), a_sharing_node("renamed"), a_node("full", 1)],
        [a_pod("x", "a", node="full")],
        [a_policy("a")],
    )
    books.put(
        Kind.NODES,
        a_node("shared", labels=a_sharing_node()["metadata"]["labels"], resources={GPU: "8"}),
    )
    names = ("whole", "renamed", "full", "shared", "new")
    passed, failed, closed = filtered(ask(books, a_pod("y", "a"), *names))
    assert passed == ["whole"]
    assert failed == {"full": TEXTS[Misfit.NO_ROOM], "new": TEXTS[Misfit.UNKNOWN_NODE]}
    assert closed == {
        "renamed": TEXTS[Misfit.NO_SLICES],
        "shared": TEXTS[Misfit.SHARED_NODE],
    }


def test_a_pod_that_is_too_large_for_any_node_is_told_so_and_claims_nothing() -> None:
    books = books_of(
        [a_node("gpu-0", 4)],
        [a_pod("large", "a", resources={GPU: "8"}), *some_pods("b", 4)],
        [a_policy("a"), a_policy("b")],
    )
    large = a_pod("large", "a", resources={GPU: "8"})
    assert filtered(ask(books, large))[2] == {"gpu-0": TEXTS[Misfit.TOO_LARGE]}
    hold(books, "b-0", "b-1", "b-2")
    assert filtered(ask(books, a_pod("b-3", "b")))[0] == ["gpu-0"]


def test_two_kinds_of_slices_at_once_fit_nowhere() -> None:
    pod = a_pod("x", "a", resources={GPU: "1", SHARED: "1"})
    _, failed, closed = filtered(ask(two_policies(), pod))
    assert (failed, closed) == ({}, {"gpu-0": TEXTS[Misfit.MIXED_SLICES]})


def test_a_node_that_others_have_a_claim_on_is_refused_and_the_rest_is_not() -> None:
    nodes = [a_node("gpu-0", 1), a_node("gpu-1", 3)]
    books = books_of(
        nodes,
        [a_pod("x", "a", node="gpu-1"), a_pod("y", "a"), a_pod("z", "b")],
        [a_policy("a"), a_policy("b")],
    )
    passed, _, _ = filtered(ask(books, a_pod("y", "a"), "gpu-0", "gpu-1"))
    assert "gpu-1" in passed


def test_a_nominated_pod_passes_on_the_node_that_was_cleared_for_it() -> None:
    books = two_policies()
    hold(books, "a-0", "a-1")
    pod = a_pod("a-2", "a", nominated="gpu-0")
    assert filtered(ask(books, pod))[0] == ["gpu-0"]


@pytest.mark.parametrize(
    ("asking", "held", "reason"),
    [
        pytest.param("a-0", (), "accepted", id="accepted"),
        pytest.param("a-2", ("a-0", "a-1"), "over_share", id="refused"),
    ],
)
def test_a_decision_has_a_label(asking: str, held: tuple[str, ...], reason: str) -> None:
    books = two_policies()
    hold(books, *held)
    assert ask(books, a_pod(asking, "a")).reason == reason


def test_filter_answers_whole_nodes_with_nodes() -> None:
    args = wire.Args.model_validate({"Pod": a_pod("a-0", "a"), "Nodes": {"items": [a_node()]}})
    reply = verbs.filter_nodes(args, two_policies().snapshot).reply
    assert isinstance(reply, wire.FilterResult)
    assert reply.nodes == {"metadata": {}, "items": [{"metadata": {"name": "gpu-0"}}]}
    assert reply.node_names is None


def test_prioritize_fills_nodes_up_and_leaves_out_what_it_does_not_know() -> None:
    books = books_of([a_node("gpu-0", 4), a_node("gpu-1", 4)], [a_pod("x", "a", node="gpu-1")])
    args = wire.Args.model_validate(a_question(a_pod("y", "a"), "gpu-0", "gpu-1", "new"))
    reply = verbs.prioritize(args, books.snapshot).reply
    assert isinstance(reply, list)
    assert {item.host: item.score for item in reply} == {"gpu-0": 2, "gpu-1": 5}


@dataclass
class FakeApi:
    """An API server that answers as told; it writes down what was bound."""

    error: Exception | None = None
    actual: str | Exception = ""
    bound: list[tuple[str, str, str, str]] = field(default_factory=list)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        self.bound.append((namespace, name, uid, node))
        if self.error is not None:
            raise self.error

    async def node_of(self, namespace: str, name: str, uid: str) -> str:
        assert (namespace, name, uid) == self.bound[-1][:3]
        if isinstance(self.actual, Exception):
            raise self.actual
        return self.actual


async def bind(books: Books, api: FakeApi, name: str, node: str = "gpu-0") -> Answer:
    args = wire.BindingArgs(pod_name=name, pod_namespace="llm", pod_uid=f"uid-{name}", node=node)
    return await verbs.bind(args, books, api, now=0.0)


def error_of(answer: Answer) -> str:
    assert isinstance(answer.reply, wire.BindingResult)
    return answer.reply.error


async def test_bind_says_ok_once_the_api_server_has_and_leaves_a_hold() -> None:
    books, api = two_policies(), FakeApi()
    answer = await bind(books, api, "a-0")
    assert (error_of(answer), answer.reason) == ("", "bound")
    assert api.bound == [("llm", "a-0", "uid-a-0", "gpu-0")]
    assert books.snapshot.holds.node_of("uid-a-0") == "gpu-0"


async def test_bind_refuses_what_passed_filter_before_others_were_bound() -> None:
    books, api = two_policies(), FakeApi()
    for name in ("a-0", "a-1"):
        assert error_of(await bind(books, api, name)) == ""
    answer = await bind(books, api, "a-2")
    assert error_of(answer) == TEXTS[Misfit.OVER_SHARE]
    assert answer.reason == "over_share"
    assert len(api.bound) == 2
    assert books.snapshot.holds.node_of("uid-a-2") is None


@pytest.mark.parametrize(
    ("error", "actual", "text", "reason", "held"),
    [
        pytest.param(Refused("HTTP 404"), "", "refused: HTTP 404", "refused", False, id="gone"),
        pytest.param(Refused("HTTP 409"), "gpu-0", "", "bound", True, id="it was bound before"),
        pytest.param(
            Refused("HTTP 409"), "gpu-9", "another node", "conflict", False, id="bound elsewhere"
        ),
        pytest.param(
            Refused("HTTP 409"), NoAnswer("lost"), "refused: HTTP 409", "no_answer", True,
            id="where it is cannot be told",
        ),
        pytest.param(
            NoAnswer("timed out"), "", "no answer from the API server: timed out", "no_answer",
            True, id="outcome unknown",
        ),
    ],
)  # fmt: skip
async def test_bind_tells_what_went_wrong_and_holds_as_long_as_it_may_be_bound(
    error: Exception, actual: Any, text: str, reason: str, held: bool
) -> None:
    books = two_policies()
    answer = await bind(books, FakeApi(error, actual), "a-0")
    assert text in error_of(answer)
    assert bool(error_of(answer)) == bool(text)
    assert answer.reason == reason
    assert (books.snapshot.holds.node_of("uid-a-0") is not None) == held


async def test_bind_of_a_pod_that_is_not_in_the_books_is_tried_again_later() -> None:
    api = FakeApi()
    answer = await bind(two_policies(), api, "new")
    assert error_of(answer) == "tenantry: pod is not in the books yet"
    assert api.bound == []


@pytest.mark.parametrize(
    ("node", "text"),
    [("gpu-0", ""), ("gpu-1", "tenantry: pod is bound to another node already")],
)
async def test_bind_of_a_bound_pod_asks_nobody(node: str, text: str) -> None:
    books, api = books_of([a_node()], [a_pod("x", "a", node="gpu-0")]), FakeApi()
    assert error_of(await bind(books, api, "x", node)) == text
    assert api.bound == []


async def test_no_gpu_is_given_out_twice_however_often_bind_is_tried() -> None:
    books = two_policies(a_pods=6, b_pods=6)
    api = FakeApi()
    for name in [f"{policy}-{n}" for n in range(6) for policy in "ab"] * 2:
        await bind(books, api, name)
    assert len({name for _, name, _, _ in api.bound}) == 4
    assert books.snapshot.free["gpu-0"][GPU] == 0


async def test_one_policy_alone_gets_everything() -> None:
    books, api = books_of([a_node()], some_pods("a", 5), [a_policy("a")]), FakeApi()
    errors = [error_of(await bind(books, api, f"a-{n}")) for n in range(5)]
    assert errors == ["", "", "", "", TEXTS[Misfit.NO_ROOM]]
