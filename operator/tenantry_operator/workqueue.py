"""A keyed queue: each key is handed out once at a time, however often it was asked for.

A burst of events about one policy becomes one reconcile; a key that is asked for while it is being
worked on comes again afterwards, so that nothing is missed.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

BACKOFF_FIRST = 1.0
BACKOFF_LIMIT = 60.0


class Key(NamedTuple):
    """Which policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WorkQueue:
    """Keys with the time from which each may be handed out. For one event loop, not for threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that only grow."""
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Ask for `key` in `delay` seconds; an earlier request for it stands."""
        due = self._clock() + delay
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    async def get(self) -> Key:
        """The key that is due the longest and not being worked on; ties: the one added first."""
        while True:
            self._changed.clear()
            free = {key: due for key, due in self._due.items() if key not in self._busy}
            first = min(free, key=free.__getitem__, default=None)
            if first is not None and free[first] <= self._clock():
                del self._due[first]
                self._busy.add(first)
                return first
            await self._wait(None if first is None else free[first])

    def done(self, key: Key) -> None:
        """The work on `key` ended well: its record of failures is forgotten."""
        self._failures.pop(key, None)
        self._release(key)

    def failed(self, key: Key) -> float:
        """The work on `key` failed: it comes again, later each time. Returns the delay (s)."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(BACKOFF_LIMIT, BACKOFF_FIRST * 2.0 ** min(count, 10))
        self._release(key)
        self.add(key, delay)
        return delay

    def _release(self, key: Key) -> None:
        self._busy.discard(key)
        self._changed.set()

    async def _wait(self, due: float | None) -> None:
        timeout = None if due is None else max(0.0, due - self._clock())
        try:
            await asyncio.wait_for(self._changed.wait(), timeout)
        except TimeoutError:
            return
