"""The pod of one engine.

It runs as a plain user on a read-only root without a service account token. With `mode: Off` it
differs from the others only in what the plugin needs: two arguments, a variable and a volume.
"""

from typing import Any

from tenantry_api import names
from tenantry_api.policy import Mode, Sharing, TenantServingPolicy
from tenantry_operator.desired import gpu, model
from tenantry_operator.desired.arguments import COMMAND, arguments
from tenantry_operator.settings import Settings

CONTAINER = "engine"
USER = 65532
HOME = "/home/engine"
GRACE_SECONDS = 60
STARTUP_SECONDS = 1800  # weights may have to be downloaded
PROBE_SECONDS = 2


def pod_spec(policy: TenantServingPolicy, settings: Settings) -> dict[str, Any]:
    """The pod's spec, before the policy's own template is laid over it."""
    claim = gpu.claim(policy.spec.gpu)
    spec: dict[str, Any] = {
        "schedulerName": names.SCHEDULER_NAME,
        "priorityClassName": policy.spec.priority_class_name,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": settings.drain_seconds + GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": gpu.WHOLE, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [_container(policy, claim, settings)],
        "volumes": _volumes(policy),
    }
    if claim.node_selector:
        spec["nodeSelector"] = claim.node_selector
    return spec


def _container(policy: TenantServingPolicy, claim: gpu.Claim, settings: Settings) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": policy.spec.engine.image or settings.engine_image,
        "command": list(COMMAND),
        "args": arguments(policy),
        "env": _environment(policy),
        "ports": [
            {"name": "http", "containerPort": names.PORT_HTTP, "protocol": "TCP"},
            {"name": "metrics", "containerPort": names.PORT_METRICS, "protocol": "TCP"},
        ],
        "resources": {"limits": dict(claim.limits)},
        "volumeMounts": _mounts(policy),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **_probes(),
    }
    if settings.drain_seconds:
        # Endpoints are taken out of the Service while the engine still answers.
        sleep = {"sleep": {"seconds": settings.drain_seconds}}
        container["lifecycle"] = {"preStop": sleep}
    return container


def _probes() -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        "startupProbe": {
            **health,
            "periodSeconds": PROBE_SECONDS,
            "failureThreshold": STARTUP_SECONDS // PROBE_SECONDS,
        },
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
    }


def _environment(policy: TenantServingPolicy) -> list[dict[str, Any]]:
    # A uid without a passwd entry has neither home nor name; Python's getpass asks for both.
    env: list[dict[str, Any]] = [
        {"name": "HOME", "value": HOME},
        {"name": "USER", "value": CONTAINER},
        *model.parts(policy.spec.model).env,
    ]
    if _has_plugin(policy):
        env.append({"name": names.ENV_POLICY, "value": names.POLICY_PATH})
    return env


def _mounts(policy: TenantServingPolicy) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the container
        {"name": "home", "mountPath": HOME},
        *model.parts(policy.spec.model).mounts,
    ]
    if _has_own_memory(policy):
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - in the container
    if _has_plugin(policy):
        mounts.append({"name": "policy", "mountPath": names.POLICY_MOUNT, "readOnly": True})
    return mounts


def _volumes(policy: TenantServingPolicy) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
        *model.parts(policy.spec.model).volumes,
    ]
    if _has_own_memory(policy):
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    if _has_plugin(policy):
        volumes.append({"name": "policy", "configMap": {"name": policy.metadata.name}})
    return volumes


def _has_own_memory(policy: TenantServingPolicy) -> bool:
    """Whether /dev/shm is the pod's own: under MPS the device plugin mounts the daemon's there."""
    return policy.spec.gpu.sharing is not Sharing.MPS


def _has_plugin(policy: TenantServingPolicy) -> bool:
    return policy.spec.scheduling.mode is not Mode.OFF
