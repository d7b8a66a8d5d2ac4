from typing import Any

import pytest

from tenantry_extender.books import Books, Kind
from tenantry_extender.snapshot import Snapshot
from tenantry_extender.tests.builders import (
    a_namespace,
    a_node,
    a_pod,
    a_policy,
    books_of,
    two_policies,
)

OBJECTS = {
    Kind.NODES: (a_node(), a_node(gpus=2)),
    Kind.PODS: (a_pod("x", "a"), a_pod("x", "b")),
    Kind.NAMESPACES: (a_namespace("llm", "2"), a_namespace("llm", "3")),
    Kind.POLICIES: (a_policy("a"), a_policy("a", 2)),
}


def entries(books: Books, kind: Kind) -> dict[Any, Any]:
    field = "policies" if kind is Kind.POLICIES else kind.value
    return dict(getattr(books.snapshot, field))


def test_books_are_complete_once_every_kind_has_been_listed() -> None:
    books = Books(Snapshot(frozenset()), 30.0)
    for kind in Kind:
        assert not books.complete()
        assert kind in books.missing()
        books.replace(kind, [], 0.0)
    assert books.complete()
    assert books.missing() == []


@pytest.mark.parametrize("kind", list(Kind))
def test_objects_are_added_changed_and_removed(kind: Kind) -> None:
    first, second = OBJECTS[kind]
    books = books_of()
    books.put(kind, first)
    before = entries(books, kind)
    books.put(kind, second)
    after = entries(books, kind)
    assert before.keys() == after.keys()
    assert before != after
    books.remove(kind, second)
    books.remove(kind, second)
    assert entries(books, kind) == {}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_new_list_forgets_what_is_not_in_it(kind: Kind) -> None:
    books = books_of()
    books.put(kind, OBJECTS[kind][0])
    books.replace(kind, [], 1.0)
    assert entries(books, kind) == {}


def test_a_pod_that_has_ended_is_struck_out() -> None:
    books = books_of(pods=[a_pod("x", "a", node="gpu-0")])
    books.put(Kind.PODS, a_pod("x", "a", node="gpu-0", phase="Succeeded"))
    assert books.snapshot.pods == {}
    books.replace(Kind.PODS, [a_pod("x", phase="Failed")], 0.0)
    assert books.snapshot.pods == {}


def test_the_age_is_that_of_the_kind_heard_of_least_lately() -> None:
    books = books_of()
    for kind in (Kind.NODES, Kind.PODS, Kind.NAMESPACES):
        books.heard(kind, 50.0)
    assert books.age(60.0) == 60.0
    books.heard(Kind.POLICIES, 55.0)
    assert books.age(60.0) == 10.0


def test_hearing_of_a_kind_that_was_never_listed_proves_nothing() -> None:
    books = Books(Snapshot(frozenset()), 30.0)
    books.heard(Kind.NODES, 1.0)
    assert Kind.NODES in books.missing()


def test_a_heartbeat_wakes_nobody() -> None:
    books, calls = books_of(nodes=[a_node()]), []
    books.changed = lambda: calls.append(1)
    body = a_node()
    body["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T12:00:10Z"
    books.put(Kind.NODES, body)
    assert calls == []
    books.put(Kind.NODES, a_node(gpus=3))
    assert calls == [1]


def test_a_hold_counts_until_the_watch_shows_the_pod_bound_and_never_twice() -> None:
    books = two_policies()
    pod = books.snapshot.pods["uid-a-0"]
    books.hold(pod, "gpu-0", 0.0)
    assert books.snapshot.free["gpu-0"]["nvidia.com/gpu"] == 3
    books.put(Kind.PODS, a_pod("a-0", "a", node="gpu-0"))
    assert books.snapshot.free["gpu-0"]["nvidia.com/gpu"] == 3
    assert list(books.snapshot.holds) == []


def test_a_hold_whose_pod_is_gone_is_gone() -> None:
    books = two_policies()
    books.hold(books.snapshot.pods["uid-a-0"], "gpu-0", 0.0)
    books.remove(Kind.PODS, a_pod("a-0"))
    assert books.snapshot.free["gpu-0"]["nvidia.com/gpu"] == 4


def test_holds_expire_once() -> None:
    books = two_policies()
    books.hold(books.snapshot.pods["uid-a-0"], "gpu-0", 100.0)
    assert books.expire(129.0) == ()
    assert books.expire(130.0) == ("uid-a-0",)
    assert books.expire(130.0) == ()
    assert books.snapshot.free["gpu-0"]["nvidia.com/gpu"] == 4
