from tenantry_extender import manifests
from tenantry_extender.holds import Holds
from tenantry_extender.manifests import Pod
from tenantry_extender.tests.builders import a_pod


def pod(name: str, node: str = "") -> Pod:
    return manifests.pod(a_pod(name, **({"node": node} if node else {})))


def test_a_hold_lasts_until_its_time_is_over() -> None:
    holds = Holds().take(pod("a"), "gpu-0", until=30.0)
    assert holds.expire(29.9).node_of("uid-a") == "gpu-0"
    assert holds.expire(30.0).node_of("uid-a") is None


def test_a_second_attempt_replaces_the_first() -> None:
    holds = Holds().take(pod("a"), "gpu-0", 10.0).take(pod("a"), "gpu-1", 20.0)
    assert [(hold.node, hold.until) for hold in holds] == [("gpu-1", 20.0)]


def test_a_hold_is_released_by_its_pod_alone() -> None:
    holds = Holds().take(pod("a"), "gpu-0", 10.0).take(pod("b"), "gpu-0", 10.0)
    assert [hold.pod.name for hold in holds.release("uid-a")] == ["b"]
    assert holds.release("uid-c") == holds


def test_holds_settle_when_the_watch_shows_the_pod_bound_or_gone() -> None:
    holds = Holds().take(pod("a"), "gpu-0", 9.0).take(pod("b"), "gpu-0", 9.0)
    holds = holds.take(pod("c"), "gpu-0", 9.0)
    seen = {"uid-a": pod("a", node="gpu-0"), "uid-b": pod("b")}
    assert [hold.pod.name for hold in holds.settle(seen)] == ["b"]
