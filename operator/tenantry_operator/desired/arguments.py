"""The command line of one engine."""

from tenantry_api import names
from tenantry_api.policy import Mode, TenantServingPolicy
from tenantry_operator.desired.gpu import memory_fraction

COMMAND = ("vllm", "serve")
DRAIN_REQUESTS_SECONDS = 20


def arguments(policy: TenantServingPolicy) -> list[str]:
    """The arguments of `vllm serve`: ours, the policy's, and the plugin's unless it is off."""
    spec = policy.spec
    own = [
        spec.model.location,
        f"--served-model-name={policy.served_name}",
        "--host=0.0.0.0",  # the pod's own address: probes and the Service come from outside
        f"--port={names.PORT_HTTP}",
    ]
    if spec.gpu.count > 1:
        own.append(f"--tensor-parallel-size={spec.gpu.count}")
    return [*own, *_defaults(policy), *spec.engine.args, *_plugin(spec.scheduling.mode)]


def _defaults(policy: TenantServingPolicy) -> list[str]:
    """What the policy's own arguments may say otherwise."""
    wanted = {
        "--shutdown-timeout": str(DRAIN_REQUESTS_SECONDS),
        "--gpu-memory-utilization": memory_fraction(policy.spec.gpu),
    }
    given = {arg.split("=", 1)[0].replace("_", "-") for arg in policy.spec.engine.args}
    return [f"{flag}={value}" for flag, value in wanted.items() if value and flag not in given]


def _plugin(mode: Mode) -> list[str]:
    if mode is Mode.OFF:
        return []
    return [f"--scheduler-cls={names.SCHEDULER_CLASS}", f"--middleware={names.MIDDLEWARE}"]
