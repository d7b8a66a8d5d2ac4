"""The waiting queue: one lane for each tenant, and a question to the scheduler which head is next.

vLLM's scheduler asks a queue four things inside a step: is there anything (`bool`), what is next
(`peek`), take it (`pop`), put these back (`prepend`). `pop` must return what was peeked, so the
choice is kept until the queue changes. `bool` is False while every head has to wait, `len` counts
all: the engine stays awake.
"""

import itertools
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from vllm.v1.core.sched.request_queue import RequestQueue

from tenantry_core.ordering import Key, Ordering, Waiting

Lane = list[tuple[Key, Any]]
Choose = Callable[[Mapping[str, Any]], Any | None]
ONE_LANE: Final = ""


def first(heads: Mapping[str, Any]) -> Any | None:
    """The head of the lane that was filled first: with one lane, vLLM's own order."""
    return next(iter(heads.values()), None)


class TenantQueue(RequestQueue):
    """A vLLM request queue with a lane for each tenant.

    `tenant` names the tenant of a request. `choose` gets the head of every lane and answers with
    the one to serve next, or None when none may be served now. Inside a lane `ordering` decides;
    requests that come back go before the others. Without `split` there is one lane for all.
    """

    def __init__(self, tenant: Callable[[Any], str], ordering: Ordering, choose: Choose) -> None:
        self.counts: Counter[str] = Counter()
        """Requests that wait, by tenant."""
        self._tenant = tenant
        self._ordering = ordering
        self._choose = choose
        self._split = True
        self._lanes: dict[str, Lane] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self._behind = itertools.count(1)
        self._before = itertools.count(-1, -1)
        self._chosen: Any | None = None
        self.offered: Any | None = None
        """What the scheduler looked at last and has not taken."""

    def add_request(self, request: Any) -> None:
        """Put a request behind those that came before it."""
        self._insert(request, next(self._behind))

    def prepend_request(self, request: Any) -> None:
        """Put a request that was taken, or that ran, before all others of its tenant."""
        self._insert(request, next(self._before))

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Put back several; the last one given ends up first, as in vLLM's queue."""
        for request in requests:
            self.prepend_request(request)

    def peek_request(self) -> Any:
        """What `pop_request` will return. Raises IndexError where nothing may be served."""
        request = self.choice()
        if request is None:
            raise IndexError("no waiting request may be served now")
        self.offered = request
        return request

    def pop_request(self) -> Any:
        """Take the request that `peek_request` shows."""
        request = self.peek_request()
        self._drop(request)
        return request

    def remove_request(self, request: Any) -> None:
        """Take a request out, wherever it stands; one that is not here is none of our business."""
        self._drop(request)

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Take out those that are here."""
        for request in requests:
            self._drop(request)

    def choice(self) -> Any | None:
        """The request to serve next, without offering it; None while none may be."""
        if self._chosen is None and self._lanes:
            self._chosen = self._choose(self.heads())
        return self._chosen

    def reconsider(self) -> None:
        """Forget the choice: what it was based on has changed."""
        self._chosen = None

    def heads(self) -> dict[str, Any]:
        """The first request of every lane, by lane."""
        return {name: lane[0][1] for name, lane in self._lanes.items()}

    def split(self, *, by_tenant: bool) -> None:
        """One lane for each tenant from now on, or one for all. Everybody keeps its turn."""
        if by_tenant == self._split:
            return
        self._split = by_tenant
        entries = sorted((entry for lane in self._lanes.values() for entry in lane), key=_key)
        self._lanes = {}
        for key, request in entries:
            tenant = self._places[request.request_id][1]
            self._place(tenant, key, request)
        self._changed()

    def __bool__(self) -> bool:
        return self.choice() is not None

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        return (request for lane in self._lanes.values() for _, request in lane)

    def _insert(self, request: Any, turn: int) -> None:
        tenant = self._tenant(request)
        self._place(tenant, self._ordering(Waiting(turn, request.request_id)), request)
        self.counts[tenant] += 1
        self._changed()

    def _place(self, tenant: str, key: Key, request: Any) -> None:
        name = tenant if self._split else ONE_LANE
        insort(self._lanes.setdefault(name, []), (key, request), key=_key)
        self._places[request.request_id] = (name, tenant)

    def _drop(self, request: Any) -> None:
        place = self._places.pop(request.request_id, None)
        if place is None:
            return
        name, tenant = place
        lane = self._lanes[name]
        del lane[next(i for i, (_, other) in enumerate(lane) if other is request)]
        if not lane:
            del self._lanes[name]
        self.counts[tenant] -= 1
        if not self.counts[tenant]:
            del self.counts[tenant]
        self._changed()

    def _changed(self) -> None:
        self._chosen = None
        self.offered = None


def _key(entry: tuple[Key, Any]) -> Key:
    return entry[0]
