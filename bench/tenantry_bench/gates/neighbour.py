"""The noisy neighbour: a quiet tenant beside a flood, with and without a step budget's price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tenantry_bench.gates import estimate
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.estimate import one
from tenantry_bench.gates.evidence import E2E, FAILED, ITL, REFUSED, TTFT
from tenantry_bench.gates.group import Gauge, Group, judged
from tenantry_bench.gates.jobs import Simulation, command
from tenantry_bench.simulator.shares import quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tenantry_bench.gates.estimate import Samples
    from tenantry_bench.gates.group import Plan, Results

QUIET: Final = "quiet"
LATE_START: Final = (60.0, 180.0)
"""Seconds in which a model that began wrong must have come right."""


@dataclass(frozen=True)
class Variation:
    """A member of the family: the scenario, tokens of a step (0: the profile's), and the least
    service compared with stock's.
    """

    id: str
    scenario: str
    service: float
    tokens: int = 0
    goals: tuple[str, str, str, str] = ("", "", "", "")


VARIATIONS: Final = (
    Variation("N1", "N1", 0.93, goals=("1.5", "1.15x alone", "2.0", "1.00")),
    Variation("N1p", "N1p", 0.88),
    Variation("N1x2", "N1x2", 0.93),
    Variation("N1-8192", "N1", 0.93, tokens=8192),
)
WRONG: Final = (1.2, 0.83)
TOLD: Final = (("oracle", "true lengths"), ("noisy:0.7", "true lengths off by sigma 0.7"))


def run(variation: Variation, arm: str, seed: int, **more: str) -> Simulation:
    """Return the job of an arm; `alone` is the quiet tenant alone."""
    only = QUIET if arm == "alone" else ""
    return Simulation(
        variation.scenario,
        arm,
        seed,
        tokens=variation.tokens,
        keep=(QUIET,),
        only=only,
        lengths=more.get("lengths", "learned"),
        model=more.get("model", "learned"),
    )


def jobs(plan: Plan) -> list[Simulation]:
    """The runs of the family, and of N1 with other orders, lengths and models."""
    found = [
        run(each, arm, seed)
        for each in VARIATIONS
        for seed in plan.family
        for arm in ("tenantry", "stock", "alone")
    ]
    first = VARIATIONS[0]
    for seed in plan.family:
        found.append(run(first, "tenantry:FIFO", seed))
        found += [run(first, "tenantry", seed, model=f"bias:{x:g}") for x in WRONG]
        found += [run(first, "tenantry", seed, lengths=text) for text, _ in TOLD]
    return found


def rows(plan: Plan, results: Results) -> list[Row]:
    """The rows of the family."""
    found = [row for each in VARIATIONS for row in _variation(plan, results, each)]
    found += _fifo(plan, results)
    for factor in WRONG:
        found += _wrong(plan, results, factor)
    for text, name in TOLD:
        found += _told(plan, results, text, name)
    return found


def _command(plan: Plan, variation: Variation, arms: str, *more: str) -> str:
    words = list(more)
    if variation.tokens:
        words += ["--engine-args", f"--max-num-batched-tokens {variation.tokens}"]
    return command(variation.scenario, arms, plan.family, *words)


def _waits(
    results: Results,
    kind: str,
    ours: Callable[[int], Simulation],
    other: Callable[[int], Simulation],
) -> Callable[[int], Samples]:
    return lambda seed: (
        results.of(ours(seed)).waits(kind, QUIET),
        results.of(other(seed)).waits(kind, QUIET),
    )


def _variation(plan: Plan, results: Results, each: Variation) -> list[Row]:
    def ours(seed: int) -> Simulation:
        return run(each, "tenantry", seed)

    def alone(seed: int) -> Simulation:
        return run(each, "alone", seed)

    shown = _command(plan, each, "alone,stock,tenantry")

    def gauge(samples: Callable[[int], Samples], statistic: Callable[..., float]) -> Gauge:
        return Gauge(plan.family, samples, statistic, shown)

    p99 = estimate.ratio(990)
    return [
        judged(
            Claim(
                f"{each.id}.ttft.p99", "quiet TTFT P99 over alone", "<=", 2.3, "x", each.goals[0]
            ),
            gauge(_waits(results, TTFT, ours, alone), p99),
            plan.slack,
        ),
        judged(
            Claim(f"{each.id}.itl.p99", "quiet ITL P99", "<=", 31.0, "ms", each.goals[1]),
            gauge(
                lambda seed: (results.of(ours(seed)).waits(ITL, QUIET),),
                lambda sample: 1e3 * quantile(sample, 990),
            ),
            plan.slack,
        ),
        judged(
            Claim(f"{each.id}.itl.ratio", "quiet ITL P99 over alone"),
            gauge(_waits(results, ITL, ours, alone), p99),
        ),
        judged(
            Claim(f"{each.id}.e2e.p99", "quiet E2E P99 over alone", "<=", 2.3, "x", each.goals[2]),
            gauge(_waits(results, E2E, ours, alone), p99),
            plan.slack,
        ),
        _service(plan, results, each, each.service),
        *_stock(plan, results, each),
        judged(
            Claim(f"{each.id}.refused", "requests refused or failed", "==", 0, ""),
            gauge(lambda seed: (one(_lost(results, ours(seed))),), lambda sample: sample.sum()),
        ),
    ]


def _stock(plan: Plan, results: Results, each: Variation) -> list[Row]:
    """What the quiet tenant sees without us; printed."""

    def alone(seed: int) -> Simulation:
        return run(each, "alone", seed)

    def stock(seed: int) -> Simulation:
        return run(each, "stock", seed)

    shown = _command(plan, each, "alone,stock,tenantry")
    return [
        judged(
            Claim(f"{each.id}.stock.{kind}.p99", f"stock: quiet {kind.upper()} P99 over alone"),
            Gauge(
                plan.family,
                _waits(results, kind, stock, alone),
                estimate.ratio(990),
                shown,
            ),
        )
        for kind in (TTFT, ITL, E2E)
    ]


def _lost(results: Results, job: Simulation) -> float:
    each = results.of(job)
    return each.count(REFUSED) + each.count(FAILED)


def _service(
    plan: Plan, results: Results, each: Variation, bound: float | None, **more: str
) -> Row:
    arm, suffix = more.pop("arm", "tenantry"), more.pop("suffix", "")
    text = more.pop("text", "service of both tenants over stock's")
    goal = more.pop("goal", each.goals[3])
    claim = Claim(f"{each.id}{suffix}.service", text, ">=", bound, "x", goal)

    def samples(seed: int) -> Samples:
        ours = results.of(run(each, arm, seed, **more))
        stock = results.of(run(each, "stock", seed))
        return one(ours.total("service")), one(stock.total("service"))

    words = [f"--{name}={value}" for name, value in more.items()]
    shown = _command(plan, each, f"stock,{arm}", *words)
    return judged(claim, Gauge(plan.family, samples, estimate.sums, shown), plan.slack)


def _fifo(plan: Plan, results: Results) -> list[Row]:
    text = "service over stock's with FIFO inside the tenant, same budget"
    more = {"arm": "tenantry:FIFO", "suffix": ".fifo", "text": text, "goal": "0.95"}
    return [_service(plan, results, VARIATIONS[0], 0.86, **more)]


def _wrong(plan: Plan, results: Results, factor: float) -> list[Row]:
    first, model = VARIATIONS[0], f"bias:{factor:g}"
    name = f"N1.bias-{factor:g}"
    shown = _command(plan, first, "tenantry", f"--model={model}")

    def pair(kind: str) -> Callable[[int], Samples]:
        def samples(seed: int) -> Samples:
            wrong = results.of(run(first, "tenantry", seed, model=model))
            right = results.of(run(first, "tenantry", seed))
            if kind == "service":
                return tuple(one(e.total(kind, window=LATE_START)) for e in (wrong, right))
            return tuple(e.waits(kind, QUIET, LATE_START) for e in (wrong, right))

        return samples

    text = f"prior times {factor:g}, from second 60 on, over the unbiased run:"
    found = [
        judged(
            Claim(f"{name}.service", f"{text} service", ">=", 0.97, "x", "no difference"),
            Gauge(plan.family, pair("service"), estimate.sums, shown),
            plan.slack,
        )
    ]
    for kind in (TTFT, ITL, E2E):
        claim = Claim(f"{name}.{kind}.p99", f"{text} quiet {kind.upper()} P99", "<=", 1.1, "x")
        gauge = Gauge(plan.family, pair(kind), estimate.ratio(990), shown)
        found.append(judged(claim, gauge, plan.slack))
    return found


def _told(plan: Plan, results: Results, lengths: str, name: str) -> Sequence[Row]:
    first, suffix = VARIATIONS[0], f".{lengths.partition(':')[0]}"

    def samples(seed: int) -> Samples:
        ours = results.of(run(first, "tenantry", seed, lengths=lengths))
        alone = results.of(run(first, "alone", seed))
        return ours.waits(TTFT, QUIET), alone.waits(TTFT, QUIET)

    shown = _command(plan, first, "alone,stock,tenantry", f"--lengths={lengths}")
    claim = Claim(f"N1{suffix}.ttft.p99", f"quiet TTFT P99 over alone, {name}")
    more = {"suffix": suffix, "lengths": lengths, "text": f"service over stock's, {name}"}
    return [
        judged(claim, Gauge(plan.family, samples, estimate.ratio(990), shown)),
        _service(plan, results, first, None, goal="", **more),
    ]


GROUP: Final = Group(
    "neighbour",
    "Noisy neighbour (N1)",
    "A quiet tenant (1 request a second, 512/128 tokens) beside a flood of 2048/256 at 12 a second "
    "(N1p 6, N1x2 24, N1-8192: N1 with 8192 tokens a step); A100, 240 s, requests that arrive from "
    "second 10 to 180. Service counts both tenants in those seconds.",
    jobs,
    rows,
)
