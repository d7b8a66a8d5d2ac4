"""What kopf is told to watch."""

from typing import Any

import pytest

from tenantry_operator import handlers
from tenantry_operator.workqueue import Key


def _watched(registry: Any) -> dict[str, Any]:
    return {handler.selector.any_name: handler for handler in registry._watching.get_all_handlers()}


def test_policies_and_their_children_are_watched() -> None:
    watched = _watched(handlers.registry(lambda _: None))
    assert set(watched) == {
        "tenantservingpolicies",
        "configmaps",
        "services",
        "deployments",
        "pods",
    }


@pytest.mark.parametrize(
    ("plural", "labels", "keys"),
    [
        pytest.param("tenantservingpolicies", {}, [Key("llm", "thing")], id="a policy"),
        pytest.param("pods", {"tenantry.dev/policy": "chat"}, [Key("llm", "chat")], id="a child"),
        pytest.param("deployments", {}, [], id="somebody else's Deployment"),
    ],
)
async def test_an_event_names_the_policy(
    plural: str, labels: dict[str, str], keys: list[Key]
) -> None:
    asked: list[Key] = []
    handler = _watched(handlers.registry(asked.append))[plural]
    await handler.fn(namespace="llm", name="thing", labels=labels)
    assert asked == keys


def test_kopf_writes_nothing_and_asks_for_no_more_than_it_needs() -> None:
    found = handlers.settings()
    assert not found.posting.enabled
    assert found.peering.standalone
    assert found.scanning.disabled
    assert isinstance(found.watching.server_timeout, int)
    assert found.watching.client_timeout
    selectors = {key.any_name: value for key, value in found.watching.label_selectors.items()}
    assert selectors == dict.fromkeys(
        ("configmaps", "services", "deployments", "pods"), "tenantry.dev/policy"
    )
