"""What a policy's pods look like."""

from typing import Any

import pytest

from tenantry_operator.settings import Settings
from tenantry_operator.tests.builders import a_deployment


def _pod(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = a_deployment(**spec)["spec"]["template"]["spec"]
    return found


def _engine(**spec: Any) -> dict[str, Any]:
    (container,) = _pod(**spec)["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize(
    ("gpu", "limits", "node_selector"),
    [
        pytest.param({}, {"nvidia.com/gpu": "1"}, None, id="one whole GPU by default"),
        pytest.param({"count": 4}, {"nvidia.com/gpu": "4"}, None, id="four whole GPUs"),
        pytest.param(
            {"sharing": "MPS", "share": "0.5"},
            {"nvidia.com/gpu.shared": "1"},
            {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "2"},
            id="half a GPU by MPS",
        ),
        pytest.param(
            {"sharing": "TimeSlicing", "share": "0.333"},
            {"nvidia.com/gpu.shared": "1"},
            {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "3"},
            id="a third of a GPU by time slicing",
        ),
        pytest.param(
            {"sharing": "MIG", "migProfile": "3g.40gb"},
            {"nvidia.com/mig-3g.40gb": "1"},
            None,
            id="a MIG instance",
        ),
        pytest.param(
            {"sharing": "MIG", "migProfile": "1g.10gb+me"},
            {"nvidia.com/mig-1g.10gb.me": "1"},
            None,
            id="a MIG instance with a plus in its name",
        ),
    ],
)
def test_the_gpu_claim_becomes_a_resource_and_node_labels(
    gpu: dict[str, Any], limits: dict[str, str], node_selector: dict[str, str] | None
) -> None:
    assert _engine(gpu=gpu)["resources"] == {"limits": limits}
    assert _pod(gpu=gpu).get("nodeSelector") == node_selector


def test_a_gpu_of_its_own_needs_no_bound_on_memory() -> None:
    assert not [arg for arg in _engine()["args"] if "memory-utilization" in arg]


def test_an_engine_on_half_a_gpu_takes_less_than_half_of_its_memory() -> None:
    args = _engine(gpu={"sharing": "MPS", "share": "0.5"})["args"]
    assert "--gpu-memory-utilization=0.450" in args


def test_what_the_policy_says_of_memory_and_shutdown_stands() -> None:
    own = ["--gpu-memory-utilization=0.3", "--shutdown-timeout", "7"]
    args = _engine(gpu={"sharing": "MPS", "share": "0.5"}, engine={"args": own})["args"]
    assert [arg for arg in args if "memory" in arg or "shutdown" in arg] == own[:2]


def test_under_mps_the_shared_memory_is_left_to_the_device_plugin() -> None:
    pod = _pod(gpu={"sharing": "MPS", "share": "0.5"})
    assert "shm" not in [volume["name"] for volume in pod["volumes"]]
    assert "shm" in [volume["name"] for volume in _pod()["volumes"]]


def test_several_gpus_split_the_model() -> None:
    assert "--tensor-parallel-size=4" in _engine(gpu={"count": 4})["args"]


def test_the_arguments_come_in_order_ours_the_policys_the_plugins() -> None:
    args = _engine(engine={"args": ["--max-model-len=8192"]}, model={"name": "org/model"})["args"]
    assert args == [
        "org/model",
        "--served-model-name=chat",
        "--host=0.0.0.0",
        "--port=8000",
        "--shutdown-timeout=20",
        "--max-model-len=8192",
        "--scheduler-cls=tenantry_engine.scheduler.TenantryScheduler",
        "--middleware=tenantry_engine.door.Door",
    ]


@pytest.mark.parametrize(
    ("source", "model", "volume"),
    [
        pytest.param({"hub": {}}, "org/model", None, id="hub"),
        pytest.param({"path": "/opt/model"}, "/opt/model", None, id="path"),
        pytest.param(
            {"claim": {"name": "weights", "path": "llama"}},
            "/models/llama",
            {
                "name": "model",
                "persistentVolumeClaim": {"claimName": "weights", "readOnly": True},
            },
            id="claim",
        ),
        pytest.param(
            {"image": {"reference": "example/weights:1"}},
            "/models",
            {
                "name": "model",
                "image": {"reference": "example/weights:1", "pullPolicy": "IfNotPresent"},
            },
            id="image",
        ),
    ],
)
def test_the_model_comes_from_its_source(
    source: dict[str, Any], model: str, volume: dict[str, Any] | None
) -> None:
    pod = _pod(model={"name": "org/model", "source": source})
    (engine,) = pod["containers"]
    mounted = [mount for mount in engine["volumeMounts"] if mount["name"] == "model"]
    assert engine["args"][0] == model
    assert [item for item in pod["volumes"] if item["name"] == "model"] == (
        [volume] if volume else []
    )
    assert mounted == (
        [{"name": "model", "mountPath": "/models", "readOnly": True}] if volume else []
    )


def test_the_hub_token_comes_from_the_secret_and_is_never_written_down() -> None:
    engine = _engine(model={"name": "org/model", "source": {"hub": {"tokenSecret": "hub"}}})
    assert {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    } in engine["env"]


def _without_the_plugin(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with the plugin's two arguments, variable, volume and mount taken out."""
    (engine,) = pod["containers"]
    bare = {
        **engine,
        "args": [
            arg
            for arg in engine["args"]
            if not arg.startswith(("--scheduler-cls=", "--middleware="))
        ],
        "env": [item for item in engine["env"] if item["name"] != "TENANTRY_POLICY"],
        "volumeMounts": [item for item in engine["volumeMounts"] if item["name"] != "policy"],
    }
    volumes = [item for item in pod["volumes"] if item["name"] != "policy"]
    return {**pod, "containers": [bare], "volumes": volumes}


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
def test_off_differs_in_nothing_but_the_plugin(mode: str) -> None:
    spec: dict[str, Any] = {"gpu": {"count": 2}, "engine": {"args": ["--seed=1"]}}
    off = a_deployment(**spec, scheduling={"mode": "Off"})
    on = a_deployment(**spec, scheduling={"mode": mode})
    pod = on["spec"]["template"]["spec"]
    assert pod != off["spec"]["template"]["spec"]
    on["spec"]["template"]["spec"] = _without_the_plugin(pod)
    assert on == off


def test_enforce_and_observe_have_the_same_pods() -> None:
    assert a_deployment(scheduling={"mode": "Observe"}) == a_deployment()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"tenants": [{"name": "gold", "weight": 3}]}, id="tenants and weights"),
        pytest.param({"identity": {"trustedPeers": ["10.0.0.0/8"]}}, id="identity"),
        pytest.param({"scheduling": {"fairness": "Tokens"}}, id="fairness"),
        pytest.param({"scheduling": {"stepBudget": "20ms"}}, id="step budget"),
        pytest.param({"kvCache": {"isolation": "Shared"}}, id="isolation"),
        pytest.param({"weight": 7}, id="weight of the policy"),
    ],
)
def test_what_the_engines_read_live_replaces_no_pod(spec: dict[str, Any]) -> None:
    assert a_deployment(**spec) == a_deployment()


def test_the_pod_runs_as_a_plain_user_on_a_read_only_root_without_a_token() -> None:
    pod = _pod()
    (engine,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert engine["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_names_our_scheduler_and_the_policys_priority_class() -> None:
    pod = _pod(priorityClassName="tenantry-batch")
    assert (pod["schedulerName"], pod["priorityClassName"]) == (
        "tenantry-scheduler",
        "tenantry-batch",
    )


def test_a_rollout_needs_no_spare_gpu() -> None:
    strategy = a_deployment()["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("engine", "replicas"),
    [
        pytest.param({}, 1, id="one by default"),
        pytest.param({"replicas": 0}, 0, id="none"),
        pytest.param({"replicas": 3}, 3, id="three"),
        pytest.param({"autoscaling": {"max": 4}}, None, id="left to an autoscaler"),
    ],
)
def test_replicas_are_the_policys_or_an_autoscalers(
    engine: dict[str, Any], replicas: int | None
) -> None:
    assert a_deployment(engine=engine)["spec"].get("replicas") == replicas


def test_the_image_is_the_policys_or_the_settings() -> None:
    settings = Settings(engine_image="registry.example/engine:2")
    deployed = a_deployment(settings)["spec"]["template"]["spec"]["containers"][0]["image"]
    assert deployed == "registry.example/engine:2"
    assert _engine(engine={"image": "own:1"})["image"] == "own:1"


def test_the_template_is_laid_over_the_pod() -> None:
    template = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "nodeSelector": {"zone": "z"},
            "containers": [
                {
                    "name": "engine",
                    "resources": {"requests": {"cpu": "2"}},
                    "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
                },
                {"name": "sidecar", "image": "side:1"},
            ],
        },
    }
    rendered = a_deployment(engine={"template": template})["spec"]["template"]
    engine, sidecar = rendered["spec"]["containers"]
    assert rendered["metadata"]["annotations"] == {"a": "b"}
    assert rendered["spec"]["nodeSelector"] == {"zone": "z"}
    assert engine["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "2"}}
    assert {"name": "OMP_NUM_THREADS", "value": "1"} in engine["env"]
    assert engine["command"] == ["vllm", "serve"]
    assert sidecar["image"] == "side:1"


def test_no_template_takes_our_labels_away() -> None:
    template = {"metadata": {"labels": {"tenantry.dev/policy": "other", "team": "a"}}}
    labels = a_deployment(engine={"template": template})["spec"]["template"]["metadata"]["labels"]
    assert (labels["tenantry.dev/policy"], labels["team"]) == ("chat", "a")


def test_without_drain_time_there_is_no_pre_stop_hook() -> None:
    pod = a_deployment(Settings(drain_seconds=0))["spec"]["template"]["spec"]
    assert "lifecycle" not in pod["containers"][0]
    assert _engine()["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
