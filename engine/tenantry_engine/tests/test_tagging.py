import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_api.choices import Isolation
from tenantry_engine import tagging
from tenantry_engine.tagging import CALLER, Caller, Tagger, namespace, salt
from tenantry_engine.tests.policies import a_config

NAMES = st.text(min_size=1, max_size=12)
SALTS = st.none() | st.text(max_size=12)


@dataclass
class Processor:
    """What the tagger sees of vLLM's front end."""

    handed: list[Any] = field(default_factory=list)
    request_states: dict[str, Any] = field(default_factory=dict)


def a_request(extra: dict[str, Any] | None = None, **values: Any) -> Any:
    given: dict[str, Any] = {
        "request_id": "cmpl-1",
        "sampling_params": SimpleNamespace(extra_args=extra),
        "pooling_params": None,
        "cache_salt": None,
        "priority": 0,
        **values,
    }
    return SimpleNamespace(**given)


def handing_over(tagger: Tagger) -> Any:
    def add_request(processor: Processor, request: Any, _prompt: str) -> str:
        processor.handed.append(request)
        processor.request_states[request.request_id] = SimpleNamespace(stats="times")
        return "registered"

    return tagger.wrap(add_request)


def handed(request: Any, caller: Caller | None, *, door: bool = True) -> Any:
    tagger, processor = Tagger(), Processor()
    tagger.door = door
    token = CALLER.set(caller)
    try:
        assert handing_over(tagger)(processor, request, "prompt") == "registered"
    finally:
        CALLER.reset(token)
    return processor.handed[0]


def test_the_doors_answer_replaces_all_that_the_client_wrote() -> None:
    request = a_request({"tenantry": "gold", "own": 1}, cache_salt="s", priority=-5)
    caller = tagging.caller("free", a_config())
    found = handed(request, caller)
    assert found.sampling_params.extra_args == {"tenantry": "free", "own": 1}
    assert (found.cache_salt, found.priority) == ("tenant/free|s", 0)
    assert caller.waits == ["times"]


def test_without_enforcement_only_the_tenant_is_written() -> None:
    request = a_request(cache_salt="s", priority=-5)
    found = handed(request, Caller("free", None, enforce=False))
    assert found.sampling_params.extra_args == {"tenantry": "free"}
    assert (found.cache_salt, found.priority) == ("s", -5)


def test_behind_a_door_what_comes_from_elsewhere_is_default() -> None:
    found = handed(a_request({"tenantry": "gold"}), None)
    assert found.sampling_params.extra_args == {"tenantry": "default"}


def test_a_pooling_request_carries_its_tenant_too() -> None:
    request = a_request(sampling_params=None, pooling_params=SimpleNamespace(extra_kwargs=None))
    found = handed(request, Caller("gold"))
    assert found.pooling_params.extra_kwargs == {"tenantry": "gold"}


@pytest.mark.parametrize("http", [True, False], ids=["over HTTP", "in a program"])
def test_without_a_door_only_a_program_names_tenants(
    http: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "uvicorn", raising=False)
    if http:
        monkeypatch.setitem(sys.modules, "uvicorn", ModuleType("uvicorn"))
    tagger, processor = Tagger(), Processor()
    wrapped = handing_over(tagger)
    for _ in range(3):
        wrapped(processor, a_request({"tenantry": "gold", "own": 1}), "prompt")
    expected = {"own": 1} if http else {"tenantry": "gold", "own": 1}
    assert [request.sampling_params.extra_args for request in processor.handed] == [expected] * 3
    assert sum("is not believed" in record.message for record in caplog.records) == int(http)


@given(st.lists(st.tuples(NAMES, SALTS), min_size=2, max_size=6, unique=True))
def test_no_name_and_no_salt_reaches_the_cache_of_another_tenant(
    clients: list[tuple[str, str | None]],
) -> None:
    config = a_config()
    seen: dict[str, tuple[str, str]] = {}
    for tenant, own in clients:
        found = salt(namespace(tenant, config), own)
        assert found is not None
        assert seen.setdefault(found, (tenant, own or "")) == (tenant, own or "")


@pytest.mark.parametrize(
    ("isolation", "tenant", "client", "expected"),
    [
        (Isolation.TENANT, "gold", None, "tenant/gold"),
        (Isolation.TENANT, "gold", "x", "tenant/gold|x"),
        (Isolation.TENANT, "a|b", "x", "tenant/a%7Cb|x"),
        (Isolation.GROUP, "gold", None, "group/team"),
        (Isolation.GROUP, "free", None, "tenant/free"),
        (Isolation.GROUP, "gold", "x", "group/team|x"),
        (Isolation.SHARED, "gold", None, None),
        (Isolation.SHARED, "gold", "tenant/free", "shared|tenant/free"),
    ],
)
def test_the_salt_of_each_isolation(
    isolation: Isolation, tenant: str, client: str | None, expected: str | None
) -> None:
    config = a_config(isolation=isolation, groups={"gold": "team"})
    assert salt(namespace(tenant, config), client) == expected
