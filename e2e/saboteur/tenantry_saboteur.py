"""Takes one name away that vLLM's own scheduler can do without."""

from vllm.v1.core.sched.request_queue import RequestQueue


def register() -> None:
    """Called by vLLM once in each of its processes."""
    if "prepend_requests" in vars(RequestQueue):
        del RequestQueue.prepend_requests
