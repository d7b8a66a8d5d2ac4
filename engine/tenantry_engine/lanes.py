"""One lane of the waiting queue: its requests in vLLM's order, and in that of a key.

Both orders are kept, so that which one holds can change from one step to the next: with one tenant
about it is vLLM's, with several that of the policy.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from tenantry_core.ordering import Key

KeyOf = Callable[[Any], Key]


class Lane:
    """Requests of one tenant, or of all. Keys are total: they end in the request's id.

    Every change costs O(log n), and the moving of pointers inside one list.
    """

    __slots__ = ("_arrivals", "_keys", "_sorted", "born", "ordered")

    def __init__(self, born: float, *, ordered: bool) -> None:
        self.born = born
        """Seconds of the queue's clock at which it was empty last."""
        self.ordered = ordered
        """Whether the keys decide; with keys for none it is vLLM's order."""
        self._arrivals: OrderedDict[str, Any] = OrderedDict()
        self._keys: dict[str, Key] = {}
        self._sorted: list[tuple[Key, str]] = []

    def __len__(self) -> int:
        return len(self._arrivals)

    def __contains__(self, name: str) -> bool:
        return name in self._arrivals

    def __iter__(self) -> Iterator[Any]:
        if self.ordered and self._sorted:
            return (self._arrivals[name] for _, name in self._sorted)
        return iter(self._arrivals.values())

    @property
    def head(self) -> Any:
        """The first request; there is one."""
        if self.ordered and self._sorted:
            return self._arrivals[self._sorted[0][1]]
        return next(iter(self._arrivals.values()))

    def arrivals(self) -> Iterator[Any]:
        """All of them, in vLLM's order."""
        return iter(self._arrivals.values())

    def add(self, request: Any, key: Key | None, *, front: bool) -> None:
        """Put a request in; in vLLM's order it goes to the end or to the `front`."""
        name = request.request_id
        self._arrivals[name] = request
        if front:
            self._arrivals.move_to_end(name, last=False)
        if key is not None:
            self._keys[name] = key
            insort(self._sorted, (key, name))

    def remove(self, name: str) -> None:
        """Take a request out; it is here."""
        del self._arrivals[name]
        key = self._keys.pop(name, None)
        if key is not None:
            place = 0 if self._sorted[0][1] == name else bisect_left(self._sorted, (key, name))
            del self._sorted[place]

    def renew(self, name: str, key_of: KeyOf) -> None:
        """Another key for one request."""
        before, key = self._keys[name], key_of(self._arrivals[name])
        if key != before:
            del self._sorted[bisect_left(self._sorted, (before, name))]
            insort(self._sorted, (key, name))
            self._keys[name] = key

    def rekey(self, key_of: KeyOf | None) -> None:
        """Other keys for all; None: nothing but vLLM's order."""
        self._keys = {n: key_of(r) for n, r in self._arrivals.items()} if key_of else {}
        self._sorted = sorted((key, name) for name, key in self._keys.items())
