"""The operator on a real cluster: children, drift, live changes, deletion, its own absence.

The engines here are small stand-ins that answer as engines do on both ports, so that a test takes
seconds; the journey's tests run real ones.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster.handle import Cluster
from e2e.poll import until
from e2e.release import NAMESPACE as SYSTEM

pytestmark = pytest.mark.cluster

STAND_IN = """
import hashlib, http.server, os, signal, threading
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
reason = ["Enforce"]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/fall":
            reason[0] = "SeamMissing"
        text = "ok"
        if self.path == "/metrics":
            data = open(os.environ["TENANTRY_POLICY"], "rb").read()
            digest = hashlib.sha256(data).hexdigest()[:12]
            active = int(reason[0] == "Enforce")
            text = f'tenantry_engine_active{{reason="{reason[0]}"}} {active}\\n'
            text += f'tenantry_policy_info{{hash="{digest}"}} 1\\n'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
def serve(port):
    http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
threading.Thread(target=serve, args=(8001,), daemon=True).start()
serve(8000)
"""
"""An engine without a model: healthy on 8000, and on 8001 the metrics that the operator reads.
GET /fall makes it say what an engine says that has fallen back to vLLM's own scheduler."""

CHILDREN = "deployments,services,configmaps,replicasets,pods"
WEIGHTS = [{"name": "gold", "weight": 3}, {"name": "free", "weight": 1}]


@dataclass(frozen=True)
class Policy:
    """The policy `chat` in a namespace of its own, served by stand-ins."""

    cluster: Cluster
    namespace: str

    def apply(self, **spec: Any) -> None:
        engine = {
            "name": "engine",
            "command": ["/usr/bin/python3", "-c", STAND_IN],
            "args": [],
            "startupProbe": {"periodSeconds": 1},
            "readinessProbe": {"periodSeconds": 1, "timeoutSeconds": 5},
            "lifecycle": {"preStop": {"sleep": {"seconds": 0}}},
        }
        template = {"spec": {"containers": [engine], "terminationGracePeriodSeconds": 1}}
        body = {
            "apiVersion": "tenantry.dev/v1alpha1",
            "kind": "TenantServingPolicy",
            "metadata": {"name": "chat", "namespace": self.namespace},
            "spec": {
                "model": {"name": "org/model"},
                "engine": {"image": "example/echo:1", "template": template},
                "tenants": WEIGHTS,
                **spec,
            },
        }
        self.run("apply", "-f", "-", stdin=json.dumps(body))

    def run(self, *args: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *args, stdin=stdin)

    def get(self, kind: str, name: str = "chat") -> Any:
        found = self.run("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def conditions(self) -> dict[str, tuple[str, str]]:
        status = self.get("tsp").get("status", {})
        return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])}

    def message(self, condition: str) -> str:
        """What a condition says; an empty text where it is absent."""
        status = self.get("tsp").get("status", {})
        found = (c["message"] for c in status.get("conditions", []) if c["type"] == condition)
        return str(next(found, ""))

    def wait(self, condition: str, state: str, reason: str, seconds: float = 60.0) -> None:
        def look() -> bool:
            return self.conditions().get(condition) == (state, reason)

        until(f"{condition} is {state}, {reason}; conditions {self.conditions()}", look, seconds)

    def pod(self) -> Any:
        selector = "tenantry.dev/policy=chat"
        items = json.loads(self.run("get", "pods", "-l", selector, "-o", "json"))["items"]
        (pod,) = [item for item in items if "deletionTimestamp" not in item["metadata"]]
        return pod

    def children(self) -> str:
        found = self.run("get", CHILDREN, "-o", "name").split()
        return " ".join(name for name in found if name != "configmap/kube-root-ca.crt")


@pytest.fixture
def policy(installed: Cluster, namespace: str) -> Policy:
    """Not applied yet."""
    return Policy(installed, namespace)


@pytest.fixture
def scale_operator(installed: Cluster) -> Iterator[Callable[[int], None]]:
    """Sets the number of operator pods; afterwards there is one again."""

    def scale(count: int) -> None:
        deployment = ("deployment/tenantry-operator", "-n", SYSTEM)
        installed.kubectl("scale", *deployment, f"--replicas={count}")
        installed.kubectl("rollout", "status", *deployment, "--timeout=60s")
        if not count:
            selector = "app.kubernetes.io/name=tenantry-operator"
            installed.kubectl(
                *("wait", "--for=delete", "pod", "-l", selector, "-n", SYSTEM, "--timeout=60s")
            )

    yield scale
    scale(1)


def test_a_policy_gets_its_children_and_becomes_ready(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    for kind in ("deployment", "service", "configmap"):
        (owner,) = policy.get(kind)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("TenantServingPolicy", "chat")
    found = policy.get("tsp")
    status = found["status"]
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    assert (status["tenantNames"], status["gpu"]) == ("gold, free", "1")
    assert status["policyHashes"] == {policy.pod()["metadata"]["name"]: status["policyHash"]}
    assert {kind: state for kind, (state, _) in policy.conditions().items()} == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "Accepted": "True",
        "SharesFeasible": "True",
        "EngineActive": "True",
        "FullyEnforced": "False",
        "ObjectivesMet": "True",
        "RolloutUnblocked": "True",
    }


def test_nothing_of_ours_stays_on_the_policy_itself(policy: Policy) -> None:
    policy.apply()
    policy.wait("Accepted", "True", "Accepted")
    meta = policy.get("tsp")["metadata"]
    assert "finalizers" not in meta
    assert set(meta["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}


def test_a_ready_policy_is_written_no_more(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    before = _settled(policy)
    policy.run("label", "service", "chat", "touched=yes")
    policy.run("annotate", "deployment", "chat", "touched=yes")
    policy.run("patch", "service", "chat", "--type=merge", "-p", '{"spec":{"selector":{"x":"y"}}}')
    until("the selector is mended", lambda: _selects_its_pods(policy))
    assert policy.get("tsp")["metadata"]["resourceVersion"] == before
    assert policy.get("service")["metadata"]["labels"]["touched"] == "yes"


def _settled(policy: Policy) -> str:
    """The policy's version once nothing has been written for two seconds."""
    seen, since = "", 0.0

    def quiet() -> str | None:
        nonlocal seen, since
        version = policy.get("tsp")["metadata"]["resourceVersion"]
        if version != seen:
            seen, since = version, time.monotonic()
        return seen if time.monotonic() - since > 2.0 else None

    return until("the status stays as it is", quiet)


def _selects_its_pods(policy: Policy) -> bool:
    selector = policy.get("service")["spec"]["selector"]
    return bool(selector["app.kubernetes.io/instance"] == "chat")


@pytest.mark.parametrize(
    ("kind", "patch", "mended"),
    [
        pytest.param(
            "configmap",
            {"data": {"policy.json": "{}"}},
            lambda found: found["data"]["policy.json"] != "{}",
            id="an edited ConfigMap",
        ),
        pytest.param(
            "deployment",
            {"spec": {"replicas": 0}},
            lambda found: found["spec"]["replicas"] == 1,
            id="a scaled Deployment",
        ),
        pytest.param(
            "service",
            {"metadata": {"labels": {"tenantry.dev/policy": None}}},
            lambda found: found["metadata"]["labels"].get("tenantry.dev/policy") == "chat",
            id="a Service without its label",
        ),
    ],
)
def test_drift_is_mended(
    policy: Policy, kind: str, patch: dict[str, Any], mended: Callable[[Any], bool]
) -> None:
    policy.apply()
    until("the children", lambda: policy.get("deployment"))
    policy.run("patch", kind, "chat", "--type=merge", "-p", json.dumps(patch))
    assert until(f"the {kind} is mended", lambda: mended(policy.get(kind)), seconds=15)


@pytest.mark.parametrize("kind", ["configmap", "service", "deployment"])
def test_a_deleted_child_comes_back(policy: Policy, kind: str) -> None:
    policy.apply()
    until("the children", lambda: policy.get("deployment"))
    uid = policy.get(kind)["metadata"]["uid"]
    policy.run("delete", kind, "chat", "--wait=false")
    assert until(
        f"another {kind}",
        lambda: (policy.get(kind) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid,
        seconds=30,
    )


def test_a_new_weight_reaches_the_same_pod(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    before, old = policy.pod(), policy.get("tsp")["status"]["policyHash"]
    policy.apply(tenants=[{"name": "gold", "weight": 1}, {"name": "free", "weight": 3}])

    def in_force() -> bool:
        status = policy.get("tsp")["status"]
        hashes = set(status.get("policyHashes", {}).values())
        return bool(status["policyHash"] != old and hashes == {status["policyHash"]})

    until("the new policy is in force", in_force, seconds=20)
    after, new = policy.pod(), policy.get("tsp")["status"]["policyHash"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"]["tenantry.dev/policy-hash"] == new
    (container,) = after["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    template = policy.get("deployment")["spec"]["template"]["metadata"]
    assert "tenantry.dev/policy-hash" not in template.get("annotations", {})


def test_an_engine_that_falls_back_is_told_within_a_minute(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    address = policy.pod()["status"]["podIP"]
    policy.cluster.run_inside(["curl", "-sS", "-m", "10", f"http://{address}:8001/fall"])
    policy.wait("EngineActive", "False", "SeamMissing")
    assert policy.conditions()["Ready"] == ("False", "SeamMissing")


def test_a_strangers_deployment_is_left_alone_until_it_goes(policy: Policy) -> None:
    policy.run("create", "deployment", "chat", "--image=example/idle:1")
    stranger = policy.get("deployment")
    policy.apply()
    policy.wait("Ready", "False", "NameTaken")
    assert policy.conditions()["Stalled"] == ("True", "NameTaken")
    assert policy.get("deployment")["metadata"]["uid"] == stranger["metadata"]["uid"]
    assert "ownerReferences" not in policy.get("deployment")["metadata"]
    policy.run("delete", "deployment", "chat")
    policy.wait("Ready", "True", "Ready")


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ({"sharing": "MIG", "migProfile": "3g.40gb"}, "Insufficient nvidia.com/mig-3g.40gb"),
        ({"count": 64}, "no node has so many GPUs"),
    ],
    ids=["a kind that there is not", "larger than every node"],
)
def test_a_pod_that_no_node_takes_is_explained(
    policy: Policy, gpu: dict[str, object], why: str
) -> None:
    policy.apply(gpu=gpu)
    policy.wait("SharesFeasible", "False", "NoNode")
    assert policy.conditions()["Ready"] == ("False", "NoNode")
    assert until(f"the reason: {why}", lambda: why in policy.message("Ready"), seconds=20)


def test_an_engine_that_fails_says_where_to_look(policy: Policy) -> None:
    crash = {"name": "engine", "command": ["/usr/bin/python3", "-c", "raise SystemExit(7)"]}
    template = {"spec": {"containers": [{**crash, "args": []}]}}
    policy.apply(engine={"image": "example/echo:1", "template": template})
    policy.wait("RolloutUnblocked", "False", "Error")
    assert policy.conditions()["Ready"] == ("False", "Error")
    assert "exit code 7" in policy.message("Ready")
    where = f"kubectl logs -n {policy.namespace} {policy.pod()['metadata']['name']} -c engine"
    assert where in policy.message("Ready")


def test_an_image_that_is_not_there_is_explained(policy: Policy) -> None:
    policy.apply(engine={"image": "example/missing:1"})
    policy.wait("RolloutUnblocked", "False", "Error")
    assert policy.conditions()["Ready"] == ("False", "Error")
    assert policy.conditions()["Stalled"] == ("True", "Error")


def test_the_status_follows_the_last_engine(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    policy.apply(engine={"image": "example/echo:1", "replicas": 0})

    def told() -> bool:
        status = policy.get("tsp")["status"]
        return "policyHashes" not in status and status["replicas"] == 0

    assert until("no engine is left in the status", told, seconds=20)


def test_off_is_ready_without_an_engine_that_is_ours(policy: Policy) -> None:
    policy.apply(scheduling={"mode": "Off"})
    policy.wait("Ready", "True", "Ready")
    assert policy.conditions()["EngineActive"] == ("Unknown", "Off")
    assert "tenantry.dev/policy-hash" not in policy.pod()["metadata"].get("annotations", {})


def test_a_deleted_policy_leaves_nothing_behind(policy: Policy) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    policy.run("delete", "tsp", "chat")
    assert until("no child is left", lambda: not policy.children(), seconds=60)


def test_a_policy_is_deleted_at_once_while_the_operator_is_away(
    policy: Policy, scale_operator: Callable[[int], None]
) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    scale_operator(0)
    start = time.monotonic()
    policy.run("delete", "tsp", "chat")
    assert time.monotonic() - start < 5
    until("no child is left", lambda: not policy.children(), seconds=60)


def test_what_changed_while_the_operator_was_away_is_caught_up(
    policy: Policy, scale_operator: Callable[[int], None]
) -> None:
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    pod = policy.pod()["metadata"]["uid"]
    scale_operator(0)
    policy.apply(tenants=[{"name": "gold", "weight": 9}])
    policy.run("delete", "service", "chat")
    scale_operator(1)
    until("the Service is back", lambda: policy.get("service"))
    until("the new tenants", lambda: policy.get("tsp")["status"]["tenantNames"] == "gold")
    policy.wait("Ready", "True", "Ready")
    assert policy.pod()["metadata"]["uid"] == pod
