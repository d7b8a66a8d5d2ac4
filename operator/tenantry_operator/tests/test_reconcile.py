"""A reconcile from end to end, against an API server in this process."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from tenantry_operator.cluster import CONFIG_MAP, DEPLOYMENT, POD, POLICY, SERVICE, Cluster
from tenantry_operator.engines import Engines
from tenantry_operator.reconcile import Outcome, Reconciler
from tenantry_operator.settings import Settings
from tenantry_operator.tests.api import Api
from tenantry_operator.tests.builders import a_body, a_pod_manifest
from tenantry_operator.workqueue import Key

KEY = Key("llm", "chat")
NAMESPACE_PATH = "/api/v1/namespaces/llm"
POLICY_PATH = POLICY.path("llm", "chat")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def api() -> Api:
    found = Api()
    found.put(NAMESPACE_PATH, {"metadata": {"name": "llm"}})
    return found


@pytest.fixture
async def reconciler(api: Api) -> AsyncIterator[Reconciler]:
    async with TestServer(api.application()) as server, aiohttp.ClientSession() as session:
        client = ApiClient(Configuration(host=str(server.make_url("")).rstrip("/")))
        async with Cluster(client) as cluster:
            engines = Engines(session, lambda: 0.0)
            yield Reconciler(cluster, engines, Settings(), lambda: NOW)


def _conditions(api: Api) -> dict[str, tuple[str, str]]:
    status = api.objects[POLICY_PATH]["status"]
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


async def test_a_policy_becomes_three_children_and_one_status(
    api: Api, reconciler: Reconciler
) -> None:
    api.put(POLICY_PATH, a_body())
    assert await reconciler.reconcile(KEY) == Outcome("ok", ready=False)
    for kind in (CONFIG_MAP, SERVICE, DEPLOYMENT):
        assert api.objects[kind.path("llm", "chat")]["metadata"]["name"] == "chat"
    (told,) = api.written("/status")
    assert set(told) == {"apiVersion", "kind", "metadata", "status"}
    assert told["metadata"] == {"name": "chat", "namespace": "llm"}
    (event,) = api.written("/events")
    assert event["reason"] == "Progressing"


async def test_a_second_look_writes_nothing(api: Api, reconciler: Reconciler) -> None:
    api.put(POLICY_PATH, a_body())
    await reconciler.reconcile(KEY)
    api.writes.clear()
    await reconciler.reconcile(KEY)
    assert api.writes == []


async def test_a_child_that_was_changed_or_deleted_comes_back(
    api: Api, reconciler: Reconciler
) -> None:
    api.put(POLICY_PATH, a_body())
    await reconciler.reconcile(KEY)
    api.writes.clear()
    api.objects[CONFIG_MAP.path("llm", "chat")]["data"]["policy.json"] = "{}"
    del api.objects[DEPLOYMENT.path("llm", "chat")]
    await reconciler.reconcile(KEY)
    assert [body["kind"] for _, _, body in api.writes] == ["ConfigMap", "Deployment"]


def _rolled_out(api: Api) -> Any:
    """The Deployment, once its controller has seen it and its one engine answers."""
    found = api.objects[DEPLOYMENT.path("llm", "chat")]
    found["metadata"]["generation"] = 1
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 1)
    found["status"] = {"observedGeneration": 1, "readyReplicas": 1, **counts}
    return found


@pytest.mark.parametrize(
    ("changed", "ready"),
    [
        pytest.param(lambda found: found, True, id="an annotation of somebody else's"),
        pytest.param(lambda found: found["spec"].update(replicas=0), False, id="a mended scale"),
        pytest.param(
            lambda found: found["status"].update(availableReplicas=0), False, id="a lost engine"
        ),
    ],
)
async def test_a_generation_that_is_not_ours_and_was_not_seen_yet_ends_no_readiness(
    api: Api, reconciler: Reconciler, changed: Callable[[Any], Any], ready: bool
) -> None:
    api.put(POLICY_PATH, a_body(scheduling={"mode": "Off"}))
    await reconciler.reconcile(KEY)
    deployment = _rolled_out(api)
    assert await reconciler.reconcile(KEY) == Outcome("ok", ready=True)
    deployment["metadata"]["generation"] = 2
    changed(deployment)
    api.writes.clear()
    assert await reconciler.reconcile(KEY) == Outcome("ok", ready=ready)
    assert (api.writes == []) is ready


async def test_a_new_template_is_not_ready_until_it_was_seen(
    api: Api, reconciler: Reconciler
) -> None:
    api.put(POLICY_PATH, a_body(scheduling={"mode": "Off"}))
    await reconciler.reconcile(KEY)
    _rolled_out(api)
    assert await reconciler.reconcile(KEY) == Outcome("ok", ready=True)
    api.objects[POLICY_PATH]["spec"]["engine"] = {"args": ["--max-model-len=8192"]}
    for _ in range(2):  # applied, then kept
        api.objects[DEPLOYMENT.path("llm", "chat")]["metadata"]["generation"] = 2
        assert await reconciler.reconcile(KEY) == Outcome("ok", ready=False)


async def test_a_new_weight_changes_the_config_map_and_touches_the_running_pods(
    api: Api, reconciler: Reconciler
) -> None:
    pod = POD.path("llm", "chat-abc-1")
    api.put(POLICY_PATH, a_body(tenants=[{"name": "gold"}]))
    api.put(pod, a_pod_manifest())
    await reconciler.reconcile(KEY)
    first = api.objects[pod]["metadata"]["annotations"]["tenantry.dev/policy-hash"]
    api.writes.clear()
    api.objects[POLICY_PATH]["spec"]["tenants"][0]["weight"] = 3
    await reconciler.reconcile(KEY)
    second = api.objects[pod]["metadata"]["annotations"]["tenantry.dev/policy-hash"]
    assert first != second == api.objects[POLICY_PATH]["status"]["policyHash"]
    changed = [path.rsplit("/", 2)[-2] for _, path, _ in api.writes if "/status" not in path]
    assert changed == ["configmaps", "pods"]


async def test_without_the_plugin_no_pod_is_touched(api: Api, reconciler: Reconciler) -> None:
    api.put(POLICY_PATH, a_body(scheduling={"mode": "Off"}))
    api.put(POD.path("llm", "chat-abc-1"), a_pod_manifest())
    await reconciler.reconcile(KEY)
    assert api.written("/pods/") == []


async def test_a_strangers_deployment_is_left_alone(api: Api, reconciler: Reconciler) -> None:
    path = DEPLOYMENT.path("llm", "chat")
    stranger: dict[str, Any] = {"metadata": {"name": "chat", "namespace": "llm"}, "spec": {}}
    api.put(POLICY_PATH, a_body())
    api.put(path, stranger)
    outcome = await reconciler.reconcile(KEY)
    assert (outcome.result, outcome.ready) == ("conflict", False)
    assert outcome.again is not None
    assert api.objects[path] == stranger
    assert _conditions(api)["Ready"] == ("False", "NameTaken")
    assert _conditions(api)["Stalled"] == ("True", "NameTaken")


async def test_an_invalid_policy_applies_nothing_and_says_everything(
    api: Api, reconciler: Reconciler
) -> None:
    api.put(POLICY_PATH, a_body(weight=-1, gpu={"count": 0}))
    assert await reconciler.reconcile(KEY) == Outcome("invalid", ready=False)
    assert {path.rsplit("/", 1)[-1] for _, path, _ in api.writes} == {"status", "events"}
    (told,) = api.written("/status")
    (message,) = {c["message"] for c in told["status"]["conditions"] if c["type"] == "Ready"}
    assert "spec.weight" in message
    assert "spec.gpu.count" in message


async def test_what_the_api_server_refuses_is_told(api: Api, reconciler: Reconciler) -> None:
    api.put(POLICY_PATH, a_body())
    api.refusal = ("deployments", 422, "spec.template: no such field")
    await reconciler.reconcile(KEY)
    assert _conditions(api)["Stalled"] == ("True", "Refused")


async def test_where_the_policy_or_its_namespace_goes_nothing_is_written(
    api: Api, reconciler: Reconciler
) -> None:
    assert await reconciler.reconcile(KEY) == Outcome("ok")
    api.put(POLICY_PATH, a_body())
    api.put(NAMESPACE_PATH, {"metadata": {"name": "llm", "deletionTimestamp": "now"}})
    assert await reconciler.reconcile(KEY) == Outcome("ok")
    leaving = a_body()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(POLICY_PATH, leaving)
    assert await reconciler.reconcile(KEY) == Outcome("ok")
    assert api.writes == []
