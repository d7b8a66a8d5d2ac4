"""What `--scheduler-cls` names: the factory that gives vLLM our scheduler, or its own.

Read the configuration, check the seams, start the engine's metrics, then build. If a seam is
missing the engine serves with vLLM's own scheduler, and says so once in the log and for as long
as it runs in `tenantry_engine_active`.
"""

import importlib
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import vllm
from prometheus_client import CollectorRegistry

from tenantry_api import names
from tenantry_api.choices import Mode
from tenantry_engine import config as configuration
from tenantry_engine import refusals, reload, seams
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics, own_version
from tenantry_engine.reload import PolicyWatch

if TYPE_CHECKING:  # imports what a vLLM without a seam may not have
    from tenantry_engine.conductor import Conductor

log = logging.getLogger(configuration.LOGGER_NAME)

POLL_SECONDS: Final = 1.0


def TenantryScheduler(*, vllm_config: Any, **kwargs: Any) -> Any:  # noqa: N802 - named like a class
    """vLLM's scheduler interface: our scheduler, or vLLM's own where a seam is missing.

    The arguments are those with which vLLM builds a scheduler. Raises ConfigError, one sentence,
    for a policy, a variable or a combination of options that cannot be used.
    """
    environ = dict(os.environ)
    config = configuration.load(environ, reload.read)
    metrics = EngineMetrics(config, CollectorRegistry())
    is_async = bool(getattr(vllm_config.scheduler_config, "async_scheduling", False))
    lacking = seams.missing()
    if lacking:
        log.error("%s", fallen_back(lacking))
        scheduler = _stock(is_async)(vllm_config=vllm_config, **kwargs)
    else:
        refusals.check(vllm_config)
        scheduler = _ours(is_async, config, metrics, {"vllm_config": vllm_config, **kwargs})
    follower = Follower(metrics, None if lacking else scheduler.conductor)
    follower.take(config)
    metrics.serve(port(environ, vllm_config))
    if names.ENV_POLICY in environ:
        follower.start(reload.watch(environ, config, log.warning))
    return scheduler


class Follower:
    """Brings a changed policy to the metrics and to the scheduler, also while no step runs."""

    def __init__(self, metrics: EngineMetrics, conductor: "Conductor | None") -> None:
        self._metrics = metrics
        self._conductor = conductor

    def take(self, config: EngineConfig) -> None:
        """This configuration is in force from now on."""
        enforced = self._conductor is not None and config.mode == Mode.ENFORCE
        if self._conductor is not None:
            self._conductor.latest = config
            self._metrics.active(enforced, "Enforce" if enforced else "Observe")
        else:
            self._metrics.active(False, "SeamMissing")
        self._metrics.policy(config)

    def start(self, watch: PolicyWatch) -> None:
        """Look for changes once a second, on a thread that ends with the process."""
        threading.Thread(
            target=self._run, args=(watch,), name="tenantry-policy", daemon=True
        ).start()

    def _run(self, watch: PolicyWatch) -> None:
        while True:
            if (config := watch.poll(time.monotonic())) is not None:
                self.take(config)
            time.sleep(POLL_SECONDS)


def fallen_back(lacking: Sequence[seams.Seam]) -> str:
    """The log line for a vLLM that lacks something; it names both versions."""
    gone = ", ".join(f"{seam.path} ({seam.purpose})" for seam in lacking)
    return (
        f"tenantry {own_version()} does not fit vLLM {_version()}, which lacks {gone}: "
        "vLLM's own scheduler serves, nothing of Tenantry's is enforced"
    )


def _version() -> str:
    return str(getattr(vllm, "__version__", "of an unknown version"))


def port(environ: Mapping[str, str], vllm_config: Any) -> int:
    """The port of this engine's metrics: each further rank of a pod has the next one; 0: none."""
    first = configuration.metrics_port(environ)
    rank = getattr(vllm_config.parallel_config, "data_parallel_rank_local", None) or 0
    return first + rank if first else 0


def _ours(
    is_async: bool, config: EngineConfig, metrics: EngineMetrics, arguments: Mapping[str, Any]
) -> Any:
    # Only now: these modules need every seam.
    from tenantry_engine import conductor, fair  # noqa: PLC0415

    cls = fair.FairAsyncScheduler if is_async else fair.FairScheduler
    return cls(setup=conductor.Setup(config, metrics), **arguments)


def _stock(is_async: bool) -> Any:
    # By name, so that a vLLM without one of them still starts with the other.
    path = seams.ASYNC_SCHEDULER if is_async else seams.SCHEDULER
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
