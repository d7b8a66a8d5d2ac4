"""Lets vLLM's busy-waiting processes sleep 20 microseconds a turn instead of yielding.

The engine core and its worker poll shared memory for up to a second after each message and take a
core from everybody. With two cores for two engines, a cluster and a load generator that stall is
what one would measure. Throughput stays alike. Every arm gets it, stock vLLM too.
"""

import time

NAP_SECONDS = 20e-6


def nap() -> None:
    time.sleep(NAP_SECONDS)


def register() -> None:
    """Entry point of group `vllm.general_plugins`: runs in every process of vLLM."""
    from vllm.distributed.device_communicators import shm_broadcast  # noqa: PLC0415

    if not hasattr(shm_broadcast, "sched_yield"):
        raise RuntimeError("vLLM has no shm_broadcast.sched_yield; take the nap out of PYTHONPATH")
    shm_broadcast.sched_yield = nap
