"""An engine in the abstract, for the theory of the ledger: steps that serve by rank and cost time.

A request is a prompt of some cost, then a tail: decodes that run in every step whatever the rank.
What the steps cost is counted here, from scratch; the ledger is only told.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from tenantry_core.ledger import Ledger, Rank
from tenantry_core.tests.lots import Lots


@dataclass(frozen=True)
class Rules:
    """The engine. `longest` is the largest cost of a step. `depth` steps may be under way when one
    is planned; a prompt is predicted within a factor of `off`. A tail costs `token` in each of
    `tail` steps; a tenant runs at most `seats` tails. The ledger settles every so many steps (0:
    never). `told` makes what it is told of a cost.
    """

    longest: float = 1.0
    depth: int = 0
    off: float = 1.0
    seats: int = 1
    token: float = 0.0
    tail: int = 0
    settles: int = 0
    begins: bool = True
    told: Callable[[str, float], float] = lambda _tenant, cost: cost
    everybody_always: bool = False

    @property
    def carried(self) -> float:
        """The most that a tenant's tails still cost."""
        return self.seats * self.token * self.tail

    @property
    def unsure(self) -> float:
        """By how much the ledger may err about a tenant: each step under way is charged too little
        by at most `longest`, or too much by at most (off - 1) of it."""
        return self.depth * self.off * self.longest


class Step(NamedTuple):
    """One step: the ranks that it was planned by, the true tags then, what each tenant was given,
    who wanted more, and the weights."""

    ranks: Mapping[str, Rank]
    tags: Mapping[str, float]
    given: Mapping[str, float]
    backlogged: frozenset[str]
    weights: Mapping[str, float]


@dataclass
class Server:
    """Serves whoever `ask`s, one `step` at a time."""

    ledger: Ledger
    weights: dict[str, float]
    rules: Rules
    lots: Lots
    prompts: dict[str, deque[float]] = field(default_factory=dict)
    tails: dict[str, list[int]] = field(default_factory=dict)
    _flying: deque[tuple[dict[str, float], dict[str, float]]] = field(default_factory=deque)
    _pressed: set[str] = field(default_factory=set)
    _steps: int = 0

    def ask(self, tenant: str, prompt: float) -> None:
        """A request arrives."""
        self.prompts.setdefault(tenant, deque()).append(prompt)

    def reweigh(self, weights: Mapping[str, float]) -> None:
        """Other weights, live."""
        self.weights.update(weights)
        self.ledger.reweigh(self.weights.__getitem__)

    def step(self) -> Step:
        """Plan by rank, serve, charge what is predicted, and correct it when the step is back."""
        present = {t for t in self.weights if self.prompts.get(t) or self.tails.get(t)}
        self.ledger.attend(self.weights if self.rules.everybody_always else present)
        ranks = {tenant: self.ledger.rank(tenant) for tenant in present}
        tags = {tenant: self._true_tag(tenant) for tenant in present}
        decodes = {t: self.rules.token * len(self.tails.get(t, ())) for t in present}
        room = self.lots.uniform(0.01, 1.0) * (self.rules.longest - sum(decodes.values()))
        served = self._serve(sorted(ranks.values()), room)
        given = {tenant: served[tenant] + decodes[tenant] for tenant in present}
        backlogged = frozenset(t for t in present if self._may_run(t))
        self._run_tails()
        if self.rules.begins:
            self.ledger.begin(tenant for tenant, cost in served.items() if cost > 0)
        self._charge(served, given)
        while len(self._flying) > self.rules.depth:
            self._land()
        self._settle(backlogged)
        return Step(ranks, tags, given, backlogged, dict(self.weights))

    def _settle(self, backlogged: frozenset[str]) -> None:
        self._pressed &= backlogged
        self._steps += 1
        if self.rules.settles and self._steps % self.rules.settles == 0:
            self.ledger.settle(self._pressed)
            self._pressed = set(self.weights)

    def _serve(self, order: list[Rank], room: float) -> dict[str, float]:
        """Prompts of the least served first; the next one's turn comes when it wants no more."""
        served = {rank.tenant: 0.0 for rank in order}
        for _, _, tenant in order:
            while room > 0 and self._may_run(tenant):
                prompts = self.prompts[tenant]
                part = min(prompts[0], room)
                room -= part
                served[tenant] += part
                prompts[0] -= part
                if prompts[0] <= 0:
                    prompts.popleft()
                    if self.rules.tail:
                        self.tails.setdefault(tenant, []).append(self.rules.tail + 1)
        return served

    def _may_run(self, tenant: str) -> bool:
        return bool(self.prompts.get(tenant) and len(self.tails.get(tenant, ())) < self.rules.seats)

    def _run_tails(self) -> None:
        for tenant, tails in self.tails.items():
            self.tails[tenant] = [left - 1 for left in tails if left > 1]

    def _charge(self, served: Mapping[str, float], given: Mapping[str, float]) -> None:
        off, told = self.rules.off, self.rules.told
        charged = {
            tenant: told(tenant, cost) * self.lots.uniform(1 / off, off)
            for tenant, cost in served.items()
        }
        for tenant, cost in charged.items():
            self.ledger.charge(tenant, cost)
        self._flying.append((charged, dict(given)))

    def _land(self) -> None:
        charged, given = self._flying.popleft()
        for tenant, cost in given.items():
            self.ledger.charge(tenant, self.rules.told(tenant, cost) - charged[tenant])

    def _true_tag(self, tenant: str) -> float:
        """The tag as it will be when all that is under way is back."""
        open_ = sum(given.get(tenant, 0) - told.get(tenant, 0) for told, given in self._flying)
        return self.ledger.rank(tenant).tag + open_ / (self.weights[tenant] or 1.0)


class Gap(NamedTuple):
    """A time through which f and g both wanted more: x, how far g was ahead of f by its true tag,
    at the `start`, at least and at most; and the weights.

    What g got more than f by weight in any part of that time is a difference of two values of x.
    """

    f: str
    g: str
    start: float
    least: float
    most: float
    weights: Mapping[str, float]

    @property
    def widest(self) -> float:
        """The largest service gap, in either direction."""
        return self.most - self.least


def gaps(steps: list[Step]) -> Iterator[Gap]:
    """Of every pair, every time through which both were backlogged and no weight changed."""
    for f, g in combinations(sorted(steps[0].weights), 2):
        now: Gap | None = None
        x = 0.0
        for step in steps:
            both = f in step.backlogged and g in step.backlogged
            if now is not None and (not both or step.weights != now.weights):
                yield now
                now = None
            if not both:
                continue
            if now is None:
                x = step.tags[g] - step.tags[f]
                now = Gap(f, g, x, x, x, step.weights)
            x += step.given[g] / step.weights[g] - step.given[f] / step.weights[f]
            now = now._replace(least=min(now.least, x), most=max(now.most, x))
        if now is not None:
            yield now
