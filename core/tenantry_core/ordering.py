"""In which order waiting requests are served: inside a tenant, or over all with `fairness: None`.

An ordering is a function from a job to a key; the smallest key goes first. Three rules hold for
all of them:

- A key is made from what is known when the job enters the queue and never from the present time.
  Ageing is a handicap in seconds added to the arrival: "who has waited longest, after what its
  size counts against it" is the same order at every moment, so nothing is ever sorted again.
- A key is five numbers and the id, the last two of which are arrival and id. No number is NaN, and
  no two jobs with different ids have the same key: the order is total whatever comes in.
- A request that was sent back goes before its equals, at most `boosts` times; beyond that it is
  ordered by what is left of it, which counts double with each further time. Without the first,
  its work is thrown away; without the second, it and its rival could take turns for ever.

`Order` binds an ordering to its parameters and to the volumes that `SVF1Bit` has seen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from tenantry_core.quantiles import Rolling

INF: Final = math.inf
SENT_BACK, WAITING = -1.0, 0.0
"""The second number of most keys: the first is for a request that goes before its equals."""
FOREGROUND, LAST = 0.0, 1.0
"""The first number of a key: the second is for what is served when nothing else waits."""
DOUBLINGS: Final = 32
"""Beyond so many, what is left of a request that keeps being sent back counts no more."""
LEAST: Final = 0.02
"""GPU seconds below which requests are hardly told apart by `doubling`."""
LEVELS: Final = 2**31
"""Priorities beyond this, either way, are of one level in `AgingPriority`."""


@dataclass(slots=True)  # not frozen: a key made anew needs one, and a step makes several
class Job:
    """What an ordering may look at, of one waiting request, when it is put into the queue."""

    request: str
    """The id, the last tie-break."""
    arrival: float
    """Seconds of the caller's clock, of the first time it came; the first tie-break."""
    tenant: str = ""
    priority: int = 0
    """Larger is more important."""
    weight: float = 1.0
    """What the user set for the tenant; 0 is served when nobody else waits."""
    prompt: int = 0
    """Tokens to compute before the next output token: without cache hits, with recomputation."""
    context: int = 0
    """Tokens whose KV it holds once those are computed."""
    length: float = 0.0
    """Predicted output tokens still to come."""
    seconds: float = 0.0
    """Predicted GPU seconds left."""
    deadline: float = INF
    """Seconds of the same clock."""
    preempted: int = 0
    """How often it was sent back to the queue."""


Key = tuple[float, float, float, float, float, str]
"""Five numbers and the id; never NaN, never two alike for two ids."""


class Parameter(NamedTuple):
    """A row of the table of parameters."""

    name: str
    default: float
    unit: str
    meaning: str


def _row(unit: str, meaning: str) -> dict[str, str]:
    return {"unit": unit, "meaning": meaning}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Every number that an ordering uses. Raises ValueError for one that is out of range."""

    aging: float = field(
        default=600.0,
        metadata=_row("s per GPU s", "Cost: the wait that makes up for one GPU second more"),
    )
    doubling: float = field(
        default=0.0,
        metadata=_row("s", "Cost: the wait that makes up for twice as many GPU seconds"),
    )
    token_aging: float = field(
        default=0.1,
        metadata=_row("s per token", "Weighted: the wait that makes up for one token at weight 1"),
    )
    level: float = field(
        default=60.0,
        metadata=_row("s", "AgingPriority: the wait that makes up for one level of priority"),
    )
    quantile: float = field(
        default=0.8,
        metadata=_row("share", "SVF1Bit: volumes above this quantile of those seen are large"),
    )
    window: int = field(
        default=512,
        metadata=_row("requests", "SVF1Bit: over how many requests the quantile is taken"),
    )
    boosts: int = field(
        default=3,
        metadata=_row("times", "all: how often a request that was sent back goes first"),
    )

    def __post_init__(self) -> None:
        for name in ("aging", "doubling", "token_aging", "level", "boosts"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give 0 or more")
        if not self.level < INF:
            raise ValueError("level is inf; for strict priorities take the ordering Priority")
        if not self.doubling < INF:
            raise ValueError("doubling is inf; for pure cost order give aging inf")
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile is {self.quantile!r}; give a share between 0 and 1")
        if not self.window >= 1:
            raise ValueError(f"window is {self.window!r}; give 1 request or more")


TABLE: Final = tuple(
    Parameter(
        each.name, getattr(Parameters(), each.name), each.metadata["unit"], each.metadata["meaning"]
    )
    for each in fields(Parameters)
)
"""The one table of parameters."""


@dataclass(frozen=True, slots=True)
class State:
    """What a key rests on beside its job: the parameters, and the volume that parts small from
    large (KV token-steps; with inf every request is small)."""

    parameters: Parameters = Parameters()
    theta: float = INF


STANDARD: Final = State()


class Ordering(Protocol):
    """A job and what else is known -> its key."""

    def __call__(self, job: Job, state: State = ...) -> Key:
        """The key; smaller goes first."""
        ...


def cost(job: Job, state: State = STANDARD) -> Key:
    """The least predicted GPU time left, after what it has waited.

    What counts against it is `aging` for each second of it, and `doubling` for each time that it is
    twice `LEAST`. The second keeps the tail short at a small price in the mean, and hardly
    depends on whether predictions are all too long or too short.
    """
    seconds, used = _left(job.seconds, job, state), state.parameters
    arrival = job.arrival
    if used.doubling:
        arrival += used.doubling * math.log2(1.0 + seconds / LEAST)
    score = _aged(arrival, seconds, used.aging)
    return (FOREGROUND, _turn(job, state), score, seconds, *_tie(job))


def fifo(job: Job, state: State = STANDARD) -> Key:
    """First come, first served."""
    return (FOREGROUND, _turn(job, state), 0.0, 0.0, *_tie(job))


def priority(job: Job, state: State = STANDARD) -> Key:
    """The most important first, whatever the others have waited; among equals the earliest."""
    return (-job.priority, _turn(job, state), 0.0, 0.0, *_tie(job))


def weighted(job: Job, state: State = STANDARD) -> Key:
    """The fewest tokens for its weight, after what it has waited: a finish time at arrival.

    It is when the request would end if each tenant were served by itself at a rate of
    weight / `token_aging` tokens a second and its requests did not queue behind each other. A
    weight buys a shorter wait, not a share of the engine: that is what `fairness` is for.
    """
    weight = job.weight if 0.0 < job.weight < INF else 0.0
    tokens = _left(job.prompt + _size(job.length), job, state) / (weight or 1.0)
    score = _aged(job.arrival, tokens, state.parameters.token_aging)
    band = FOREGROUND if weight else LAST
    return (band, _turn(job, state), score, tokens, *_tie(job))


def shortest(job: Job, state: State = STANDARD) -> Key:
    """The fewest predicted output tokens left."""
    return (FOREGROUND, _turn(job, state), _left(job.length, job, state), 0.0, *_tie(job))


def aging_priority(job: Job, state: State = STANDARD) -> Key:
    """The most important first, where each `level` seconds of waiting are worth one level.

    One that was sent back counts as one level higher: it goes before its equals, but for one that
    has waited `level` seconds longer.
    """
    level = min(max(job.priority, -LEVELS), LEVELS) - _turn(job, state)
    score = _aged(job.arrival, -level, state.parameters.level)
    return (FOREGROUND, WAITING, score, -level, *_tie(job))


def smallest_volume(job: Job, state: State = STANDARD) -> Key:
    """The least KV volume left."""
    volume_left = _left(volume(job), job, state)
    return (FOREGROUND, _turn(job, state), volume_left, 0.0, *_tie(job))


def small_before_large(job: Job, state: State = STANDARD) -> Key:
    """Those up to `theta` of KV volume before those beyond; each of the two by arrival."""
    large = _left(volume(job), job, state) > state.theta
    return (float(large), _turn(job, state), 0.0, 0.0, *_tie(job))


def earliest_deadline(job: Job, state: State = STANDARD) -> Key:
    """The earliest deadline; without one behind all that have one, by arrival.

    One that was dead when it came goes last: it must be refused, and never gets ahead by it.
    """
    deadline = _moment(job.deadline)
    band = LAST if deadline <= job.arrival else FOREGROUND
    return (band, deadline, _turn(job, state), 0.0, *_tie(job))


DEFAULT: Final = "Cost"
ORDERINGS: Final[Mapping[str, Ordering]] = MappingProxyType(
    {
        DEFAULT: cost,
        "FIFO": fifo,
        "Priority": priority,
        "Weighted": weighted,
        "SJF": shortest,
        "AgingPriority": aging_priority,
        "SVF": smallest_volume,
        "SVF1Bit": small_before_large,
        "Deadline": earliest_deadline,
    }
)
"""Every ordering, by the name that a policy gives it."""

PREDICTED: Final = frozenset({"Cost", "Weighted", "SJF", "SVF", "SVF1Bit"})
"""Those that rest on predictions: worth asking again when the predictions have become better."""


class Order:
    """An ordering with its parameters: what a queue asks for the keys of its jobs.

    `arrived` is told each request once, when it first comes; asking for a key changes nothing.
    Raises ValueError for a name that is not in the table.
    """

    def __init__(self, name: str, parameters: Parameters | None = None) -> None:
        if name not in ORDERINGS:
            raise ValueError(f"no ordering {name!r}; there are {', '.join(ORDERINGS)}")
        self.name = name
        self._key = ORDERINGS[name]
        self._state = State(parameters or Parameters())
        self._volumes: Rolling | None = None
        if name == "SVF1Bit":
            used = self._state.parameters
            self._volumes = Rolling(used.quantile, used.window)

    @property
    def learns(self) -> bool:
        """Whether `arrived` makes a difference."""
        return self._volumes is not None

    def __call__(self, job: Job) -> Key:
        """The key of the job."""
        return self._key(job, self._state)

    def arrived(self, job: Job) -> None:
        """Learn what sizes come, where the ordering depends on it."""
        if self._volumes is not None:
            self._volumes.add(_size(volume(job)))
            self._state = State(self._state.parameters, self._volumes.value)


def volume(job: Job) -> float:
    """KV token-steps until it ends: its context, and one token more with each step."""
    output = _size(job.length)
    return job.context * output + output * (output + 1.0) / 2.0


def expired(job: Job, now: float) -> bool:
    """Whether its deadline has passed; no time left is the same as less than none."""
    return job.deadline <= now


def _turn(job: Job, state: State) -> float:
    """Whether it goes before its equals."""
    return SENT_BACK if 0 < job.preempted <= state.parameters.boosts else WAITING


def _left(size: float, job: Job, state: State) -> float:
    """What is left of it, doubled for each time that it was sent back beyond the boosts."""
    beyond = job.preempted - state.parameters.boosts
    return _size(size) * 2.0 ** min(beyond, DOUBLINGS) if beyond > 0 else _size(size)


def _aged(arrival: float, size: float, rate: float) -> float:
    """The arrival moved by `rate` seconds for each unit of size; size alone at a rate of inf."""
    if rate == INF:
        return size
    return _moment(arrival + rate * size) if rate else _moment(arrival)


def _tie(job: Job) -> tuple[float, str]:
    return _moment(job.arrival), job.request


def _size(value: float) -> float:
    """At least 0; one that is not known (NaN) is the largest of all."""
    if value >= 0.0:
        return value
    return 0.0 if value < 0.0 else INF


def _moment(value: float) -> float:
    """A time; one that is not known (NaN) is after all others."""
    return INF if math.isnan(value) else value
