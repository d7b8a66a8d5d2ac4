"""The waiting queue: one lane for each tenant, and a question to the scheduler which head is next.

vLLM's scheduler asks a queue four things inside a step: is there anything (`bool`), what is next
(`peek`), take it (`pop`), put these back (`prepend`). `pop` must return what was peeked, so the
choice is kept until the queue changes. `bool` is False while every head has to wait, `len` counts
all: the engine stays awake.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from vllm.v1.core.sched.request_queue import RequestQueue

from tenantry_engine.lanes import KeyOf, Lane

Choose = Callable[[Mapping[str, Lane]], Any | None]
ONE_LANE: Final = ""
_OPEN: Final = object()
"""In place of a choice that is still to be made: that nobody may be served is a choice too."""


def first(lanes: Mapping[str, Lane]) -> Any | None:
    """The head of the lane that was filled first: with one lane, its own order."""
    return next((lane.head for lane in lanes.values()), None)


class TenantQueue(RequestQueue):
    """A vLLM request queue with a lane for each tenant.

    `tenant` names the tenant of a request. `choose` gets every lane and answers with the request to
    serve next, or None when none may be served now. Without `split` there is one lane for all. With
    `order` a key decides inside a lane; while `ordered` is off, and without keys, it is vLLM's own
    order.
    """

    def __init__(self, tenant: Callable[[Any], str], choose: Choose) -> None:
        self.counts: Counter[str] = Counter()
        """Requests that wait, by tenant."""
        self.moved: set[str] = set()
        """Tenants whose count has changed; whoever reads them takes them out."""
        self.lanes: dict[str, Lane] = {}
        self.offered: Any | None = None
        """What the scheduler looked at last and has not taken."""
        self.now = 0.0
        """Seconds of the scheduler's clock at its last step."""
        self._tenant = tenant
        self._choose = choose
        self._key_of: KeyOf | None = None
        self._ordered = False
        self._split = True
        self._places: dict[str, tuple[str, str]] = {}
        self._outdated: dict[str, None] = {}
        self._old: dict[str, None] = {}
        self._chosen: Any | None = _OPEN

    def add_request(self, request: Any) -> None:
        """Put a request behind those that came before it."""
        self._insert(request, front=False)

    def prepend_request(self, request: Any) -> None:
        """Put a request that was taken, or that ran, before all others of its lane; where keys
        decide, its key does."""
        self._insert(request, front=True)

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
        request = self.choice()
        if request is None:
            raise IndexError("no waiting request may be served now")
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
        if self._chosen is _OPEN:
            self._chosen = self._choose(self.lanes) if self.lanes else None
        return self._chosen

    def reconsider(self) -> None:
        """Forget the choice: what it was based on has changed."""
        self._chosen = _OPEN

    def heads(self) -> dict[str, Any]:
        """The first request of every lane, by lane."""
        return {name: lane.head for name, lane in self.lanes.items()}

    def filled_since(self, then: float) -> list[str]:
        """The lanes that have not been empty since then, in seconds of the scheduler's clock."""
        return [name for name, lane in self.lanes.items() if lane.born <= then]

    def split(self, *, by_tenant: bool) -> None:
        """One lane for each tenant from now on, or one for all. Among those that share a lane then,
        who arrived first goes first."""
        if by_tenant == self._split:
            return
        self._split = by_tenant
        requests = [request for lane in self.lanes.values() for request in lane.arrivals()]
        self.lanes = {}
        for request in sorted(requests, key=_arrival):
            self._place(self._places[request.request_id][1], request, front=False)
        self._changed()

    def order(self, key_of: KeyOf | None) -> None:
        """Other keys inside the lanes; None: none."""
        self._key_of = key_of
        self._outdated.clear()
        self._old.clear()
        for lane in self.lanes.values():
            lane.rekey(key_of)
        self._changed()

    def rekey(self, tenant: str) -> None:
        """What is known of a tenant has changed: its keys are to be made anew by `refresh`."""
        if self._key_of is not None:
            self._outdated[tenant if self._split else ONE_LANE] = None

    def refresh(self, count: int) -> None:
        """Make so many of the keys anew that are out of date: a few in each step, since a lane may
        hold thousands. An order of older and newer keys is an order too."""
        while count > 0:
            if not self._old and not self._next_lane():
                return
            name = next(iter(self._old))
            del self._old[name]
            place = self._places.get(name)
            if place is not None and self._key_of is not None:
                self.lanes[place[0]].renew(name, self._key_of)
                count -= 1
                self._changed()

    def _next_lane(self) -> bool:
        """Put the requests of the next lane whose keys are out of date down as old; whether there
        are any."""
        while self._outdated and not self._old:
            name = next(iter(self._outdated))
            del self._outdated[name]
            lane = self.lanes.get(name)
            if lane is not None:
                self._old = dict.fromkeys(each.request_id for each in lane.arrivals())
        return bool(self._old)

    @property
    def ordered(self) -> bool:
        """Whether keys decide inside a lane, where there are any."""
        return self._ordered

    @ordered.setter
    def ordered(self, by_key: bool) -> None:
        if by_key != self._ordered:
            self._ordered = by_key
            for lane in self.lanes.values():
                lane.ordered = by_key
            self._changed()

    def __bool__(self) -> bool:
        return self.choice() is not None

    def __contains__(self, request: Any) -> bool:
        return request.request_id in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        return (request for lane in self.lanes.values() for request in lane)

    def _insert(self, request: Any, *, front: bool) -> None:
        tenant = self._tenant(request)
        self._place(tenant, request, front=front)
        self.counts[tenant] += 1
        self.moved.add(tenant)
        self._changed()

    def _place(self, tenant: str, request: Any, *, front: bool) -> None:
        name = tenant if self._split else ONE_LANE
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(self.now, ordered=self._ordered)
        key = None if self._key_of is None else self._key_of(request)
        lane.add(request, key, front=front)
        self._places[request.request_id] = (name, tenant)

    def _drop(self, request: Any) -> None:
        place = self._places.pop(request.request_id, None)
        if place is None:
            return
        name, tenant = place
        lane = self.lanes[name]
        lane.remove(request.request_id)
        if not lane:
            del self.lanes[name]
        self.counts[tenant] -= 1
        if not self.counts[tenant]:
            del self.counts[tenant]
        self.moved.add(tenant)
        self._changed()

    def _changed(self) -> None:
        self._chosen = _OPEN
        self.offered = None


def _arrival(request: Any) -> tuple[float, str]:
    return request.arrival_time, request.request_id
