"""How many output tokens a request will make, learned from those that ended.

Output lengths differ between applications far more than between prompts of one, so they are learned
for each tenant and prompt size: a running mean for everybody, for each tenant, and for each tenant
and power of two of the prompt. A group that has seen n requests speaks with n / (n + 8) and leaves
the rest to the wider one. Behind all stands a prior, a heavy-tailed guess; `max_tokens` is only an
upper bound, since few requests use what they ask for.

A request that has made tokens already is compared with those that made at least as many: a group
keeps the part of its requests that got beyond each of a few lengths, and the tokens of that part.
So the remainder is never negative, and where all known requests ended earlier, the prior's tail
says "about half as much again".
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

STEP: Final = 0.05
"""The least that the latest request counts for in a mean: one changes within a few dozen."""
HESITATION: Final = 8
"""Requests after which a group counts for half, and the wider one for the other half."""
TENANTS: Final = 1024
BUCKETS: Final = 18
"""Bounds of what is remembered: tenants, and prompt sizes of each (one of 2^17 and more tokens)."""
EDGES: Final = (0.0, *(8.0 * 2.0 ** (half / 2) for half in range(29)))
"""Lengths in tokens beyond which the parts are kept: halves of an octave, to 2^17."""


class Lengths(Protocol):
    """What predicts output lengths."""

    def expect(self, tenant: str, prompt: int, done: int, limit: int, request: str) -> float:
        """Output tokens still to come: at least 1, at most `limit - done`.

        `prompt` is the whole prompt, `done` the output so far, `limit` the most it may make, all in
        tokens; `request` is its id, for whoever knows more of it.
        """
        ...

    def finished(self, tenant: str, prompt: int, output: int) -> None:
        """A request ended by itself after so many output tokens; one that was aborted never does,
        for its length says when somebody lost patience."""
        ...

    def evidence(self, tenant: str) -> int:
        """How many finished requests speak for this tenant."""
        ...


@dataclass(frozen=True, slots=True)
class Prior:
    """Output lengths before any was seen: a Lomax distribution with this mean, in tokens.

    Beyond d tokens there are still (scale + d) / (shape - 1) to come: at shape 3 the whole mean
    at first, and half as much again as it has made in the end.
    """

    mean: float = 256.0
    shape: float = 3.0

    @property
    def scale(self) -> float:
        """The other parameter of the distribution, in tokens."""
        return self.mean * (self.shape - 1.0)

    def beyond(self, done: float) -> tuple[float, float]:
        """The part of requests longer than this, and that part's tokens for each request."""
        scale = self.scale
        part = (scale / (scale + done)) ** self.shape
        return part, part * (done + (scale + done) / (self.shape - 1.0))


class Learned:
    """The estimate that a running engine can make of itself."""

    def __init__(self, prior: Prior | None = None) -> None:
        self._prior = prior or Prior()
        self._all = _Group()
        self._tenants: dict[str, _Tenant] = {}

    def expect(self, tenant: str, prompt: int, done: int, limit: int, request: str) -> float:
        """See `Lengths`; `request` makes no difference."""
        del request
        part, tokens = self._beyond(self._groups(tenant, prompt), float(max(done, 0)))
        return _bounded(tokens / part - done, limit - done)

    def within(self, tenant: str, prompt: int, done: int, limit: int, share: float) -> float:
        """Output tokens still to come for this share of requests like it: 0.5 is the median.

        Raises ValueError for a share that is not between 0 and 1.
        """
        if not 0.0 < share < 1.0:
            raise ValueError(f"share is {share!r}; give one between 0 and 1")
        groups = self._groups(tenant, prompt)
        wanted = (1.0 - share) * self._beyond(groups, float(max(done, 0)))[0]
        low, high = float(max(done, 0)), float(max(limit, done))
        while high - low > max(1.0, low / 64.0):
            middle = (low + high) / 2.0
            if self._beyond(groups, middle)[0] > wanted:
                low = middle
            else:
                high = middle
        return _bounded(high - done, limit - done)

    def finished(self, tenant: str, prompt: int, output: int) -> None:
        """See `Lengths`. One without any output ended before its length showed."""
        if output < 1:
            return
        known = self._tenants.pop(tenant, None) or _Tenant()
        if len(self._tenants) >= TENANTS:
            del self._tenants[next(iter(self._tenants))]
        self._tenants[tenant] = known  # the one that finished nothing for longest stands first
        bucket = known.buckets.setdefault(_bucket(prompt), _Group())
        for group in (self._all, known.all, bucket):
            group.add(float(output))

    def evidence(self, tenant: str) -> int:
        """See `Lengths`. Of a tenant that is not known, none."""
        known = self._tenants.get(tenant)
        return known.all.seen if known is not None else 0

    def _groups(self, tenant: str, prompt: int) -> "tuple[_Group, ...]":
        """The groups that speak for a request, the narrowest first."""
        known = self._tenants.get(tenant)
        if known is None:
            return (self._all,)
        bucket = known.buckets.get(_bucket(prompt))
        return (known.all, self._all) if bucket is None else (bucket, known.all, self._all)

    def _beyond(self, groups: "tuple[_Group, ...]", done: float) -> tuple[float, float]:
        """The part of requests longer than `done`, and that part's tokens for each request."""
        part = tokens = 0.0
        left = 1.0
        place = _place(done)
        for group in groups:
            seen = group.seen
            weight = left * seen / (seen + HESITATION)
            one, other = group.beyond(place)
            part += weight * one
            tokens += weight * other
            left -= weight
        one, other = self._prior.beyond(done)
        return part + left * one, tokens + left * other


_Place = tuple[int, float, float]
"""Where a length is among the edges: the next edge, the part of the way that is left to it, and the
middle of that part; the next edge of 0 is 0."""


def _place(length: float) -> _Place:
    if length <= 0.0:
        return 0, 0.0, 0.0
    above = bisect_right(EDGES, length)
    if above == len(EDGES):
        return above - 1, 0.0, 0.0
    low, high = EDGES[above - 1], EDGES[above]
    return above, (high - length) / (high - low), (high + length) / 2.0


class _Group:
    """Requests that are taken together."""

    __slots__ = ("_parts", "_tokens", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self._parts = array("d", bytes(8 * len(EDGES)))
        self._tokens = array("d", bytes(8 * len(EDGES)))

    def add(self, output: float) -> None:
        """One more; older ones fade, so that a group follows what it is now used for."""
        step = max(STEP, 1.0 / (self.seen + 1))
        keep = 1.0 - step
        self.seen += 1
        reached = bisect_right(EDGES, output)
        self._parts = _mixed(self._parts, reached, keep, step)
        self._tokens = _mixed(self._tokens, reached, keep, step * output)

    def beyond(self, place: _Place) -> tuple[float, float]:
        """The part of requests longer than this, and that part's tokens for each request.

        Between two edges lengths are taken to be spread evenly.
        """
        above, within, middle = place
        if not above:
            return self._parts[0], self._tokens[0]
        parts = self._parts
        part = parts[above]
        among = (parts[above - 1] - part) * within
        return part + among, self._tokens[above] + among * middle


class _Tenant:
    __slots__ = ("all", "buckets")

    def __init__(self) -> None:
        self.all = _Group()
        self.buckets: dict[int, _Group] = {}


def _mixed(values: "array[float]", reached: int, keep: float, more: float) -> "array[float]":
    faded = [value * keep + more for value in values[:reached]]
    return array("d", chain(faded, [value * keep for value in values[reached:]]))


def _bucket(prompt: int) -> int:
    return min(max(prompt, 1).bit_length(), BUCKETS) - 1


def _bounded(tokens: float, most: float) -> float:
    return max(min(tokens, float(most)), 1.0)
