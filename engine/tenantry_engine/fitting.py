"""Which waiting request may be offered to vLLM: one that fits, now and in the steps that follow.

A request that does not fit is passed over, so that it stops nobody who does. So that it is not
passed over for ever, blocks are set aside for the one that was passed over for longest: after
ASIDE steps by those who have their share of the cache already, after INSIST steps by everybody.
They stay set aside until its prompt is through: with its first chunk it takes only the first of
them, and without the others it would soon be sent back, to wait as long once more. One that has
had tokens has begun before, and gave its blocks back to whom they belong.

Whoever has blocks set aside is offered wherever it stands in its lane, and nothing is set aside
for weight 0 from the others: it waits for them, and they must not wait for it as well.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from tenantry_core.growth import HORIZON, Ask, Forecast, fits
from tenantry_core.ledger import BACKGROUND
from tenantry_engine.lanes import Lane
from tenantry_engine.view import View

PATIENCE: Final = 16
"""Steps for which a request that vLLM turned away is passed over, and for which it is taken as
known how many blocks a request lacks."""
FRESH: Final = 8
"""Steps for which a forecast is used."""
ASIDE: Final = 250
INSIST: Final = 1000
LOOK_AHEAD: Final = 8
"""Requests of one lane that are looked at for one that fits."""


@dataclass(frozen=True, slots=True)
class _Passed:
    """A request that was passed over: whether it waits for all others, and since which step."""

    last: bool
    since: int
    request: Any

    def older(self, other: "_Passed") -> bool:
        """Whether this one goes before the other."""
        here = (self.last, self.since, self.request.request_id)
        return here < (other.last, other.since, other.request.request_id)


class Fitting:
    """Knows what was passed over and refused. `remaining` predicts how many output tokens a request
    still makes."""

    def __init__(
        self, view: View, remaining: Callable[[Any], float], *, growth: bool = True
    ) -> None:
        self._view = view
        self._growth = growth
        self._remaining = remaining
        self._step = 0
        self._exempt: Callable[[str, int], bool] = lambda _tenant, _need: False
        self._refused: dict[str, tuple[int, int]] = {}
        self._passed: dict[str, _Passed] = {}
        self._needs: dict[str, tuple[int, int]] = {}
        self._aside: tuple[_Passed, int] | None = None
        """For whom blocks are set aside, and how many."""
        self._begun: dict[str, _Passed] = {}
        """Requests in their first prompt that had been passed over for long."""
        self._forecast: Forecast | None = None
        self._made = 0

    def begin(self, exempt: Callable[[str, int], bool]) -> None:
        """A step begins. `exempt` says whether a tenant has its share of the cache even with so
        many blocks more: what it asks for only has to fit."""
        self._step += 1
        self._exempt = exempt
        past = self._step - PATIENCE
        if self._refused:
            self._refused = {n: entry for n, entry in self._refused.items() if entry[0] > past}
        if self._needs:
            self._needs = {n: entry for n, entry in self._needs.items() if entry[0] > past}
        if self._begun:
            self._look_after()
        self._release()

    def refused(self, request: Any) -> None:
        """It was offered in this step, and vLLM did not admit it."""
        free = self._view.scheduler.free_blocks()
        self._refused[request.request_id] = (self._step, free)
        self._pass_over(request)

    def admitted(self, request: Any) -> None:
        """It has begun: from now on it grows."""
        name = request.request_id
        passed = self._passed.pop(name, None)
        long = passed is not None and self._step - passed.since >= ASIDE
        if passed is not None and long and not request.num_output_tokens:
            self._begun[name] = passed
        elif self._is_aside(request):
            self._aside = None
        if self._forecast is not None:
            self._add(self._forecast, request)

    def forget(self, live: Mapping[str, Any]) -> None:
        """Drop what is known of requests that wait no longer; `live` are all, by id."""
        queue = self._view.queue
        self._passed = {n: each for n, each in self._passed.items() if each.request in queue}
        self._begun = {n: each for n, each in self._begun.items() if n in live}
        self._release()

    def first(self, lane: Lane) -> Any | None:
        """Of the first requests of a lane the first that may be offered. One that is not ready is
        offered too: vLLM looks whether it has become so."""
        ready, head = self._view.scheduler.ready, lane.head
        if not ready(head) or self.fits(head):
            return head
        self._pass_over(head)
        others = self._others(lane)
        return next((each for each in others if not ready(each) or self.fits(each)), None)

    def _others(self, lane: Lane) -> Iterator[Any]:
        """Those of a lane that are looked at if its first does not fit."""
        yield from islice(lane, 1, LOOK_AHEAD)
        if self._aside is not None and self._aside[0].request.request_id in lane:
            yield self._aside[0].request

    def fits(self, request: Any) -> bool:
        """Whether it may be admitted now."""
        free = int(self._view.scheduler.free_blocks())
        refusal = self._refused.get(request.request_id)
        if refusal is not None and free <= refusal[1]:
            return False
        need = self._need(request, free)
        if need > free:
            return False
        if self._aside is None and self._ample(free - need):
            return True
        tenant = self._view.reader.tenant(request)
        exempt = self._exempt(tenant, need)
        spare = free - need - self._kept_aside(request, exempt=exempt)
        return spare >= 0 and (exempt or not self._growth or self._leaves_room(spare))

    def _need(self, request: Any, free: int) -> int:
        """Free blocks that it takes. Where they are too few it is looked up how many of its tokens
        are cached, and that is not repeated in each step."""
        name = request.request_id
        known = self._needs.get(name)
        if known is not None:
            return known[1]
        need = int(self._view.scheduler.blocks_for(request))
        if need > free:
            self._needs[name] = (self._step, need)
        return need

    def _pass_over(self, request: Any) -> None:
        name = request.request_id
        known = self._passed.get(name)
        since = self._step if known is None else known.since
        if known is not None and self._step - since < ASIDE:
            return
        mine = self._passed[name] = _Passed(self._waits_for_all(request), since, request)
        if known is None or self._others_first(mine):
            return
        self._aside = (mine, int(self._view.scheduler.blocks_for(request)))

    def _others_first(self, mine: _Passed) -> bool:
        """Whether one that was passed over goes before this one; mostly it is the one that has
        blocks set aside."""
        if self._aside is not None:
            first = self._aside[0]
            if first.request.request_id in self._passed and first.older(mine):
                return True
        return any(each.older(mine) for each in self._passed.values())

    def _look_after(self) -> None:
        """One whose prompt is through needs nothing set aside; one that was sent back before that
        stands where it stood."""
        for name, passed in list(self._begun.items()):
            request = passed.request
            back, gone = request in self._view.queue, name not in self._view.scheduler.requests
            if back:
                self._passed[name] = passed
            if back or gone or not request.is_prefill_chunk:
                del self._begun[name]

    def _release(self) -> None:
        """Set nothing aside for one that neither waits nor is about to get what it needs."""
        if self._aside is None:
            return
        request = self._aside[0].request
        if request.request_id not in self._begun and request not in self._view.queue:
            self._aside = None

    def _is_aside(self, request: Any) -> bool:
        return self._aside is not None and self._aside[0].request is request

    def _waits_for_all(self, request: Any) -> bool:
        return self._view.rank(request).band == BACKGROUND

    def _kept_aside(self, request: Any, *, exempt: bool) -> int:
        if self._aside is None or self._is_aside(request):
            return 0
        passed, need = self._aside
        if exempt and self._step - passed.since < INSIST:
            return 0
        if self._waits_for_all(passed.request) and not self._waits_for_all(request):
            return 0
        if passed.request.request_id not in self._begun:
            return need
        done = int(passed.request.num_computed_tokens)
        return max(need - done // int(self._view.scheduler.block_size), 0)

    def _ample(self, spare: int) -> bool:
        """Whether so many blocks are enough however what runs grows for a while."""
        view = self._view
        running, prompts = view.scheduler.running, view.reader.census.prompts
        block = view.scheduler.block_size
        pending = sum(each.num_tokens - each.num_computed_tokens for each in prompts)
        return bool(spare >= len(running) * (HORIZON // block + 2) + -(-pending // block))

    def _leaves_room(self, spare: int) -> bool:
        """Whether what runs can grow for a while in what would be left."""
        if self._ample(spare):
            return True
        return fits(spare, Ask(0), self._forecasted(), HORIZON, min(self._step - self._made, FRESH))

    def _forecasted(self) -> Forecast:
        if self._forecast is None or self._step - self._made >= FRESH:
            view = self._view
            forecast = Forecast(view.scheduler.block_size, HORIZON + FRESH)
            self._made = self._step
            for request in view.scheduler.running:
                self._add(forecast, request)
            self._forecast = forecast
        return self._forecast

    def _add(self, forecast: Forecast, request: Any) -> None:
        block, done = self._view.scheduler.block_size, request.num_computed_tokens
        forecast.add(
            self._remaining(request),
            into=done % block,
            held=-(-done // block),
            pending=max(request.num_tokens - done, 0) if request.is_prefill_chunk else 0,
            after=min(self._step - self._made, FRESH),
        )
