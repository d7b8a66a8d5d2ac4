"""Lets vLLM's busy loops nap, on a test machine of two cores. Not a part of the product.

vLLM's processes poll shared memory for up to a second after each message and yield in between;
with more processes than cores that takes whole cores from everybody else, on every arm of a
comparison alike. A sleep of 20 microseconds in the place of the yield costs no throughput. vLLM
loads this as a general plugin wherever this folder is on PYTHONPATH.
"""

import time

NAP_SECONDS = 20e-6


def register() -> None:
    """Replace the yield; called by vLLM in each of its processes."""
    from vllm.distributed.device_communicators import shm_broadcast  # noqa: PLC0415

    shm_broadcast.sched_yield = _nap


def _nap() -> None:
    time.sleep(NAP_SECONDS)
