"""A fluid imitation of a busy engine: the budget sizes steps, the A100 of `a100` times them, the
model learns from the times. One endless queue of prompts beside a number of decodes.
"""

from dataclasses import dataclass, field

from tenantry_core.budget import Ceiling, Packer
from tenantry_core.probes import Probe
from tenantry_core.quantiles import quantile
from tenantry_core.stepmodel import Load, StepTimes, prompt_work
from tenantry_core.tests import a100

PROMPT = 2048
ENGINE = 2048


@dataclass
class Batch:
    """Decodes that come and go: each has a context, and so many tokens still to come."""

    dice: a100.Dice
    size: int
    contexts: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.size):
            self.contexts.append(self.dice.uniform(500.0, 1900.0))
            self.left.append(self.dice.integer(1, 256))

    @property
    def load(self) -> Load:
        """What the decodes ask of a step."""
        return Load(0, self.size, int(sum(self.contexts)))

    def advance(self) -> None:
        """Each has a token more; another takes the place of each that is done."""
        for i in range(self.size):
            self.contexts[i] += 1
            self.left[i] -= 1
            if not self.left[i]:
                self.contexts[i] = self.dice.uniform(500.0, 1700.0)
                self.left[i] = self.dice.integer(64, 448)


@dataclass(frozen=True)
class Outcome:
    """Prefill tokens per second; mean and P99 of step times in seconds; steps by total tokens."""

    rate: float
    mean: float
    p99: float
    totals: dict[int, int]


class Sized:
    """The budget at work: learns from each step."""

    def __init__(self, model: StepTimes, ceiling: Ceiling) -> None:
        self._packer = Packer(model)
        self._ceiling = ceiling

    def step(self, decodes: Load, done: int) -> Load:
        """The next step beside a prompt of which so many tokens are computed."""
        probe = self._packer.probe(self._ceiling)
        self._packer.ran(probe)
        if probe == Probe.ONE:
            return Load(0, 1, decodes.context // decodes.decodes)
        tokens = self._packer.chunk(decodes, done, self._ceiling)
        return decodes + Load(tokens, work=prompt_work(done, tokens))

    def took(self, load: Load, seconds: float) -> None:
        """The step has run."""
        self._packer.model.observe(load, seconds)


def run(
    sizes: Sized,
    seed: int,
    *,
    begin: float = 60.0,
    seconds: float = 60.0,
    decodes: int = 30,
) -> Outcome:
    """Run from 0 to `begin` and `seconds` more, of which only the latter count."""
    batch, noise = Batch(a100.Dice(seed), decodes), a100.Dice(seed + 1000)
    now, done = 0.0, 0
    prefilled, steps, totals = 0, [], dict[int, int]()
    while now < begin + seconds:
        load = sizes.step(batch.load, done)
        took = a100.measured(load, noise)
        sizes.took(load, took)
        if now >= begin:
            prefilled += load.prefill
            steps.append(took)
            totals[load.tokens] = totals.get(load.tokens, 0) + 1
        done = (done + load.prefill) % PROMPT
        now += took
        if load.decodes == batch.size:
            batch.advance()
    mean = sum(steps) / len(steps)
    return Outcome(prefilled / sum(steps), mean, quantile(sorted(steps), 990), totals)


def best_fixed(decodes: Load, ceiling: float) -> float:
    """Prefill tokens per second of the best chunk under the ceiling, by the true times."""
    rates = []
    for tokens in range(16, 512):
        load = decodes + Load(tokens, work=prompt_work(PROMPT // 2, tokens))
        if a100.seconds(load) <= ceiling:
            rates.append(tokens / a100.seconds(load))
    return max(rates)
