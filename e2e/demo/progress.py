"""Steps with their times, on standard error: there is always something to see."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Says what is being done and how long it took, counted from the start of the demo."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        elapsed = time.monotonic() - self._begun
        sys.stderr.write(f"[{elapsed:6.1f} s] {text}\n")
        sys.stderr.flush()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say that a step begins, and how long it took when it is done."""
        begun = time.monotonic()
        self.say(f"{what} ...")
        yield
        self.say(f"{what}: done in {time.monotonic() - begun:.1f} s")
