"""What is simulated: who sends what, for how long, on which engine. The table is in `catalogue`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT: Final = 4096
"""max_tokens of every request: no caller knows how long an answer will be."""
POSITIONS: Final = 131_072
"""Tokens of a request, prompt and output together, that the simulated engine takes."""
CV: Final = 0.8
LEAST: Final = 8


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens: log-normal, or uniform from `low` to `high` where `high` is given."""

    mean: float = 0.0
    cv: float = CV
    low: int = LEAST
    high: int = 0
    most: int = 100_000

    @property
    def middle(self) -> float:
        """The mean, in tokens."""
        return (self.low + self.high) / 2 if self.high else self.mean


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of request, and how often it comes compared with the other kinds of its tenant.

    Where `pairs` of prompt and output are given, one of them is drawn instead.
    """

    prompt: Length = Length()
    output: Length = Length()
    part: float = 1.0
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def means(self) -> tuple[float, float]:
        """Mean prompt and output, in tokens."""
        if self.pairs:
            prompts, outputs = zip(*self.pairs, strict=True)
            return sum(prompts) / len(self.pairs), sum(outputs) / len(self.pairs)
        return self.prompt.middle, self.output.middle


@dataclass(frozen=True, slots=True)
class Tenant:
    """What a tenant sends. One of `rate` (requests a second, open loop), `in_flight` (closed loop)
    and `burst` (so many at `start`).

    `cv` is that of the times between arrivals: 1 is a Poisson process, more is burstier (gamma).
    `connections` divides what is in flight among callers. `priority` is for `stock-priority`:
    large is important. `count` bounds the requests of a closed loop (0: no bound). All prompts
    begin with what `shared` names, 512 tokens each.
    """

    name: str
    shapes: tuple[Shape, ...]
    rate: float = 0.0
    in_flight: int = 0
    burst: int = 0
    start: float = 0.0
    weight: float = 1.0
    priority: int = 0
    cv: float = 1.0
    connections: int = 1
    count: int = 0
    shared: tuple[int, ...] = ()

    @property
    def loop(self) -> str:
        """How a results row calls it."""
        return "closed" if self.in_flight else "open"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request of a trace. `t` in seconds; `output` is its true length, `limit` its max_tokens.

    One that is `refused` is one that vLLM's front end does not let in.
    """

    name: str
    tenant: str
    t: float
    prompt: int
    output: int
    limit: int = LIMIT
    priority: int = 0
    shared: tuple[int, ...] = ()
    cancel_at: float | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load and the engine that it needs.

    Arrivals come until `duration`. With `drain` the run goes on until everything has ended,
    otherwise it is cut off there. Measured are requests that arrive in `window`, in seconds.
    `kv_tokens` replaces the profile's. `arms` are run when none are asked for. With a `utilisation`
    rates only say how tenants compare, and are scaled so that the work that comes in takes this
    part of the GPU. `synthetic` says what is made up where public data was not given. Scenarios
    with the same `lots` draw the same lengths, times and noise from a seed.
    """

    name: str
    text: str
    tenants: tuple[Tenant, ...]
    duration: float
    window: tuple[float, float]
    kv_tokens: int | None = None
    drain: bool = False
    arms: tuple[str, ...] = ("alone", "stock", "tenantry")
    trace: tuple[Recorded, ...] = ()
    utilisation: float = 0.0
    synthetic: str = ""
    lots: str = ""

    @property
    def drawn(self) -> str:
        """The name that goes into seeds."""
        return self.lots or self.name

    def lasting(self, duration: float) -> Scenario:
        """The same for another time. A longer run keeps the window's distance from both ends, in a
        shorter one the window shrinks with it.
        """
        low, high = self.window
        if duration >= self.duration:
            return replace(self, duration=duration, window=(low, duration - self.duration + high))
        part = duration / self.duration
        return replace(self, duration=duration, window=(low * part, high * part))

    def scaled(self, seconds: Callable[[float, float], float]) -> Scenario:
        """The same with rates that give its utilisation; `seconds` prices a prompt and output."""
        if not self.utilisation:
            return self
        work = 0.0
        for tenant in self.tenants:
            whole = sum(shape.part for shape in tenant.shapes)
            for kind in tenant.shapes:
                work += tenant.rate * kind.part / whole * seconds(*kind.means)
        factor = self.utilisation / work
        tenants = tuple(replace(each, rate=each.rate * factor) for each in self.tenants)
        return replace(self, tenants=tenants, utilisation=0.0)

    def only(self, name: str) -> Scenario:
        """The same with one tenant."""
        return replace(
            self,
            tenants=tuple(tenant for tenant in self.tenants if tenant.name == name),
            trace=tuple(each for each in self.trace if each.tenant == name),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The tenants, those of a trace in the order in which they come."""
        listed = [tenant.name for tenant in self.tenants]
        return tuple(dict.fromkeys([*listed, *(each.tenant for each in self.trace)]))

    def share(self, name: str) -> float:
        """The part of the engine that a tenant's weight buys when all have work."""
        weights = {tenant.name: tenant.weight for tenant in self.tenants}
        total = sum(weights.get(each, 1.0) for each in self.names)
        return weights.get(name, 1.0) / total if total else 0.0


def shape(prompt: float, output: float, cv: float = CV) -> Shape:
    """Log-normal lengths with these means."""
    return Shape(Length(prompt, cv), Length(output, cv))
