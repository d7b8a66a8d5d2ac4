"""Waiting for something to come true, with a deadline and a name."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(
    what: str, look: Callable[[], Found | None], seconds: float = 30.0, every: float = 0.1
) -> Found:
    """The first true value of `look`; `TimeoutError` with `what` and the last value after that."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s; last seen: {found!r}")
        time.sleep(every)
