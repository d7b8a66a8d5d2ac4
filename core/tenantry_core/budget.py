"""How much one step may hold, and how much work may be thrown away to make room.

A step with many prefill tokens keeps every decode waiting. While more than one tenant is about, a
step holds all decodes and then prefill tokens: not as many as the predicted time allows under a
ceiling, but as many as give the most of them per second. Step time over tokens is a staircase, and
a step that just misses the edge of a tile pays for the whole tile.

Without a given ceiling (`auto`) it is a multiple of tau, the predicted step of one decode alone: a
tenant that is entitled to half of the engine has 2 tau between its tokens when alone on its half,
and is kept near that. When the tokens of such a tenant come late by a good part of the delay that
it was promised, the ceiling goes down by about one tile; when first tokens of tenants below their
share are late and get later, it goes up (`Relief`). A step without decodes to protect may be
longer.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple, Protocol, runtime_checkable

from tenantry_core.probes import Probe, Probes
from tenantry_core.stepmodel import SMALLEST, Load, StepTimes
from tenantry_core.tiles import ENDS

PROTECTING: Final = 2.5
"""With `auto`: the ceiling in tau, a quarter more than a tenant has alone on its half."""
EASED: Final = 2.15
"""The same while tokens are late, for a tenant entitled to half: about one tile less. Entitled to
more, it comes down in proportion, to LEAST."""
LEAST: Final = 1.4
EASING: Final = (0.6, 0.95)
"""Lateness over the promised delay at which the ceiling begins to come down, and is down."""
RELAXED: Final = (4.5, 6.0, 10.0)
"""Ceilings without decodes to protect, in tau: the first that serves nearly as much a second as
the best, a token of output counted twice. Short steps keep shares exact; where nothing rides along
with reading the weights, they would cost a part of the service."""
NEARLY: Final = 0.93
OUTPUT: Final = 2.0
RECONSIDER: Final = 256
"""Steps between two looks at which of them it is."""
RAISED: Final = 2.0
"""How far late first tokens may raise the ceiling."""
FLOOR: Final = 32
"""Prefill tokens that a step may always hold: below this a prompt makes no headway."""
STRETCH: Final = 1.15
"""Where not even they keep the ceiling, a step may take so many times their time if that is more
efficient: it is late anyway."""
KEPT: Final = 0.02
"""Another size must be better by this part."""
OVER, GAIN = 0.03, 0.08
"""With `auto`, a step may be over the ceiling by the first part if that gives the second more
tokens per second: the ceiling is known no better than that, and the staircase is steep."""
SEARCH: Final = 8
"""Steps between two searches for a better size."""
EXPLORE: Final = 32
"""One step in so many tries a size that may be better than is believed."""
OPTIMISM: Final = 2.5
"""Standard errors by which a size may be better than is believed."""
AT_MOST: Final = 1.5
"""A size believed to take longer than this many ceilings is not tried."""
MARGIN: Final = 64
"""Prefill tokens beyond the largest size under the ceiling at which a larger one may be under it
again, step time being no smooth function of tokens."""
ONE: Final = Load(decodes=1)


@dataclass(slots=True)  # not frozen: it is made in every step, at a quarter of the time
class Ceiling:
    """What bounds a step: seconds (None = `auto`), and tokens, the engine's own limit.

    The rest is for `auto`. `protecting`: the step holds decodes that must not wait long. `share`:
    what the most entitled tenant among those that contend is entitled to. `late`: by how much the
    tokens of protected tenants are late, over the promised delay; tenants that have a request
    waiting do not count, since smaller steps would make it wait longer. `objective`: the smallest
    time between tokens that anybody was promised, in seconds. `raised`: the factor of `Relief`.
    """

    seconds: float | None
    tokens: int
    protecting: bool = True
    share: float = 0.5
    late: float = 0.0
    objective: float = inf
    raised: float = 1.0


def easing(late: float) -> float:
    """How far the ceiling comes down, 0 to 1, when tokens are late by this part of the delay."""
    begins, ends = EASING
    return min(max((late - begins) / (ends - begins), 0.0), 1.0)


def limit(model: StepTimes, ceiling: Ceiling, relaxed: float = RELAXED[0]) -> float:
    """The ceiling in seconds; `relaxed` is the one without decodes to protect, in tau."""
    if ceiling.seconds is not None:
        return ceiling.seconds
    allowed = relaxed
    if ceiling.protecting:
        eased = min(max(EASED * 0.5 / max(ceiling.share, 1e-9), LEAST), EASED)
        allowed = PROTECTING - (PROTECTING - eased) * easing(ceiling.late)
    seconds = allowed * model.predict(ONE) * min(max(ceiling.raised, 1.0), RAISED)
    return min(seconds, ceiling.objective)


def chunk(model: StepTimes, decodes: Load, context: int, ceiling: Ceiling) -> int:
    """Prefill tokens for a step beside `decodes`, up to the engine's limit; without a memory.

    `context` is what the prompt in turn has computed so far, in tokens.
    """
    return _Step(_Times(model, decodes, context), ceiling).best().tokens


@runtime_checkable
class Doubting(StepTimes, Protocol):
    """A model that knows how well it knows."""

    def doubt(self, load: Load) -> float:
        """Standard error of the prediction, in seconds."""
        ...


class Packer:
    """Sizes steps one after the other: keeps a size while it is good, and tries others.

    It looks for a better size every `SEARCH` steps, and at once when the one in use does not keep
    the ceiling. One step in `EXPLORE` takes a size whose time, were it better than believed by
    `OPTIMISM` standard errors, would be the best under the ceiling. After a few tries the error is
    too small for that: a size that one slow step or a wrong prior had made look bad comes back, one
    that is bad stays away.
    """

    def __init__(self, model: StepTimes) -> None:
        self.model = model
        self._doubting = model if isinstance(model, Doubting) else None
        self._kept: dict[bool, int] = {}
        self._steps = 0
        self._probes = Probes()
        self._free, self._relaxed = 0, RELAXED[0]

    def probe(self, ceiling: Ceiling) -> Probe:
        """What the next step should hold and nothing else, if anything."""
        if ceiling.seconds is not None or self._doubting is None:
            return Probe.NONE
        return self._probes.next(protecting=ceiling.protecting)

    def ran(self, probe: Probe | None) -> None:
        """A step that `probe` was asked about held this (None: nobody asked); what was due and did
        not run stays due."""
        if probe is not None:
            self._probes.ran(probe)

    def chunk(self, decodes: Load, context: int, ceiling: Ceiling) -> int:
        """Prefill tokens for the next step; see the function of this name."""
        self._steps += 1
        times = _Times(self.model, decodes, context)
        if not ceiling.protecting and ceiling.seconds is None:
            self._reconsider(times, ceiling)
        kept = self._kept.get(ceiling.protecting, 0) - times.tokens
        # Mostly the size in use is simply good. What is a step to explore is one to search too.
        usable = self._steps % SEARCH and FLOOR <= kept <= ceiling.tokens - times.tokens
        if usable and times.of(kept) <= limit(self.model, ceiling, self._relaxed):
            return kept
        step = _Step(times, ceiling, self._relaxed)
        usual = self._usual(step, ceiling.protecting)
        model = self._doubting
        if model is None or step.room <= FLOOR:
            return usual
        tries, now = divmod(self._steps, EXPLORE)
        return usual if now else _hopeful(step, usual, tries, model)

    def _reconsider(self, times: "_Times", ceiling: Ceiling) -> None:
        """Now and then: the shortest relaxed ceiling that is nearly as good as the longest."""
        self._free -= 1
        if self._free > 0:
            return
        self._free = RECONSIDER
        sizes = [_Step(times, ceiling, each).best() for each in RELAXED]
        # Each step gives every decode a token, however long it is.
        done = OUTPUT * times.beside.decodes
        rates = [(size.tokens + done) / size.seconds for size in sizes]
        good = NEARLY * max(rates)
        self._relaxed = next(r for r, rate in zip(RELAXED, rates, strict=True) if rate >= good)

    def _usual(self, step: "_Step", protecting: bool) -> int:
        """The size in use, or a better one."""
        kept = self._kept.get(protecting, 0) - step.beside
        old = step.size(kept) if FLOOR <= kept <= step.room else None
        if old is not None and old.seconds <= step.most and self._steps % SEARCH:
            return old.tokens
        best = step.best()
        if old is not None and old.seconds <= step.limit and old.rate >= best.rate * (1.0 - KEPT):
            return old.tokens
        self._kept[protecting] = best.tokens + step.beside
        return best.tokens


def _hopeful(step: "_Step", usual: int, turn: int, model: Doubting) -> int:
    """One of the sizes near the usual one, each in its turn, if it might be better; else that."""
    others = step.around(usual)
    tokens = others[turn % len(others)] if others else usual
    time = step.times.of(tokens)
    hoped = max(time - OPTIMISM * model.doubt(step.times.load(tokens)), SMALLEST)
    better = tokens > hoped * step.size(usual).rate * (1.0 + KEPT)
    return tokens if better and hoped <= step.limit and time <= AT_MOST * step.limit else usual


class _Size(NamedTuple):
    """Prefill tokens per second and step; larger is better, of equal rates the larger step."""

    rate: float
    tokens: int
    seconds: float


class _Times:
    """What a step takes that holds prefill tokens `beside` its decodes; the model is asked once for
    each number of them. `context` is that of the prompt."""

    def __init__(self, model: StepTimes, beside: Load, context: int) -> None:
        self.model = model
        self.beside = beside
        self.tokens = beside.tokens
        self._context = context
        self._known: dict[int, float] = {}

    def load(self, tokens: int) -> Load:
        """The load with so many prefill tokens."""
        own = self.beside
        work = own.work + tokens * (self._context + tokens / 2)
        return Load(own.prefill + tokens, own.decodes, own.context, work)

    def of(self, tokens: int) -> float:
        """Seconds of the step with so many prefill tokens."""
        seconds = self._known.get(tokens)
        if seconds is None:
            seconds = self._known[tokens] = self.model.predict(self.load(tokens))
        return seconds


class _Step:
    """One step to be sized. Sizes are prefill tokens, such that the step ends with a bucket."""

    def __init__(self, times: _Times, ceiling: Ceiling, relaxed: float = RELAXED[0]) -> None:
        self.times = times
        self.beside = times.tokens
        self.room = max(ceiling.tokens - self.beside, 0)
        self.limit = limit(times.model, ceiling, relaxed)
        if ceiling.seconds is None and self.room > FLOOR:
            self.limit = max(self.limit, min(STRETCH * times.of(FLOOR), ceiling.objective))
        self.most = self.limit
        if ceiling.seconds is None:
            self.most = max(self.limit, min(self.limit * (1.0 + OVER), ceiling.objective))

    def size(self, tokens: int) -> _Size:
        """A size, and how good it is."""
        seconds = self.times.of(tokens)
        return _Size(tokens / seconds, tokens, seconds)

    def best(self) -> _Size:
        """The size with most prefill tokens per second under the ceiling, or a little over it."""
        if self.room <= FLOOR:
            return _Size(0.0, self.room, self.limit)
        best = over = self.size(FLOOR)
        for tokens in self.around(self._largest()):
            size = self.size(tokens)
            if size.seconds <= self.limit:
                best = max(best, size)
            elif size.seconds <= self.most:
                over = max(over, size)
        return over if over.rate > best.rate * (1.0 + GAIN) else best

    def around(self, size: int) -> list[int]:
        """Sizes from two thirds of this one to a few more."""
        least = max(size * 2 // 3, FLOOR) + self.beside
        most = min(size + MARGIN, self.room) + self.beside
        ends = ENDS[bisect_left(ENDS, least) : bisect_right(ENDS, most)]
        sizes = [end - self.beside for end in ends]
        return [*sizes, self.room] if most == self.room + self.beside else sizes

    def _largest(self) -> int:
        """Of the buckets' ends the largest under the ceiling, taking time to grow."""
        low, high = (
            bisect_left(ENDS, FLOOR + self.beside),
            bisect_right(ENDS, self.room + self.beside),
        )
        while low < high:
            middle = (low + high) // 2
            if self.times.of(ENDS[middle] - self.beside) <= self.limit:
                low = middle + 1
            else:
                high = middle
        return max(ENDS[low - 1] - self.beside, FLOOR)


@dataclass(slots=True)
class Relief:
    """Raises the ceiling while first tokens of tenants below their share are late and get later.

    A ceiling can make a load infeasible that the engine could carry: then the prompts that fit into
    its steps are fewer than those that come. `factor` goes up by a tenth a second, to RAISED, and
    back as slowly when they are in time.
    """

    patience: float = 1.0
    """Seconds for which a first token may be awaited."""
    factor: float = 1.0
    _seen: float = field(default=0.0, repr=False)
    _since: float = field(default=-inf, repr=False)

    def see(self, late: float, now: float) -> float:
        """`late`: how long the oldest first token of such a tenant has been awaited. Seconds."""
        if now - self._since < 1.0:
            return self.factor
        if late > self.patience and late > self._seen:
            self.factor = min(self.factor * 1.1, RAISED)
        elif late <= self.patience:
            self.factor = max(self.factor / 1.1, 1.0)
        self._seen, self._since = late, now
        return self.factor


class Allowance:
    """A share of all time that may be spent on something, over a sliding window."""

    def __init__(self, share: float, window: float) -> None:
        self._limit = share * window
        self._window = window
        self._spent: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def allows(self, seconds: float, now: float) -> bool:
        """Whether so much more fits now. Changes nothing but what has left the window."""
        while self._spent and self._spent[0][0] <= now - self._window:
            self._sum -= self._spent.popleft()[1]
        return self._sum + seconds <= self._limit

    def spend(self, seconds: float, now: float) -> None:
        """Write down that it was spent."""
        self._spent.append((now, seconds))
        self._sum += seconds
