"""`tenantry simulate`: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tenantry_bench import load as loads
from tenantry_bench import results
from tenantry_bench.errors import BadInputError
from tenantry_bench.results import About
from tenantry_bench.simulator import catalogue, options, profiles, show
from tenantry_core.quantiles import EMPTY
from tenantry_engine.metrics import own_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.results import Row
    from tenantry_bench.simulator.measure import Sample
    from tenantry_bench.simulator.options import Options
    from tenantry_bench.simulator.runner import Run
    from tenantry_bench.simulator.scenario import Scenario

PROGRAM = "tenantry simulate"
DEFAULT_PROFILE = "a100-llama3-8b"
DEFAULT_SEEDS = (11, 12, 13)
PROGRESS_SECONDS = 2.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInputError(message)


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = _Parser(
        prog=PROGRAM,
        description="Run the real vLLM scheduler, with and without Tenantry, on a virtual clock.",
        allow_abbrev=False,
    )
    made.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="a name that --list shows")
    made.add_argument("--list", action="store_true", help="show scenarios and profiles, and end")
    made.add_argument("--policy", type=Path, metavar="FILE", help="the policy of the arm tenantry")
    made.add_argument("--arms", metavar="A,B", help="default: those of the scenario")
    made.add_argument("--seeds", metavar="N,N", help="one run each (default: 11,12,13)")
    made.add_argument("--profile", default=DEFAULT_PROFILE, metavar="NAME|FILE", help="the GPU")
    made.add_argument("--engine-args", default="", metavar='"..."', help="as for vllm serve")
    made.add_argument("--kv-tokens", metavar="N", help="size of the KV cache in tokens")
    made.add_argument("--duration", metavar="S", help="seconds in which requests arrive")
    made.add_argument("--lengths", default="learned", metavar="learned|oracle|noisy:S")
    made.add_argument("--model", default="learned", metavar="learned|oracle|bias:X")
    made.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    return made


@dataclass(frozen=True)
class Job:
    """What was asked for, checked."""

    scenarios: Sequence[Scenario]
    arms: Sequence[str]
    seeds: Sequence[int]
    options: Options
    output: str
    command: str


@dataclass
class Results:
    """Rows by seed, and pooled for the table."""

    rows: list[Row] = field(default_factory=list)
    pooled: list[Row] = field(default_factory=list)


def run(argv: Sequence[str]) -> int:
    """Run `tenantry simulate` with its arguments and return the exit code."""
    try:
        given = parser().parse_args(argv)
        if given.list:
            print(listing())  # noqa: T201 - the result
            return 0
        _hush()
        return _simulate(checked(given, argv))
    except BadInputError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def say(text: str) -> None:
    """Tell the user something that is no result."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def listing() -> str:
    """Return scenarios, families and profiles, a line each."""
    found = catalogue.SCENARIOS
    width = max(map(len, (*found, *profiles.shipped())))
    lines = [f"{name.ljust(width)}  {scenario.text}" for name, scenario in found.items()]
    for family in catalogue.FAMILIES:
        members = ", ".join(each.name for each in catalogue.find(family))
        lines.append(f"{family.ljust(width)}  all of {members}")
    lines += ["", "profiles:"]
    for name in profiles.shipped():
        each = profiles.find(name)
        note = "" if each.calibrated else " (uncalibrated)"
        lines.append(f"{name.ljust(width)}  {each.model} on {each.gpu}{note}")
    return "\n".join(lines)


def checked(given: argparse.Namespace, argv: Sequence[str]) -> Job:
    """Return the job. Raises BadInputError for whatever cannot be used."""
    if not given.scenarios:
        raise BadInputError("name a scenario; --list shows them")
    scenarios = [each for name in given.scenarios for each in catalogue.find(name)]
    if given.duration is not None:
        duration = _seconds(given.duration)
        scenarios = [each.lasting(duration) for each in scenarios]
    return Job(
        scenarios=scenarios,
        arms=_arms(given.arms),
        seeds=_seeds(given.seeds),
        options=options.Options(
            profile=profiles.find(given.profile),
            engine=options.engine(given.engine_args),
            kv_tokens=_count("--kv-tokens", given.kv_tokens),
            lengths=options.told("--lengths", given.lengths, "noisy"),
            model=options.told("--model", given.model, "bias"),
        ),
        output=given.output,
        command=shlex.join(["tenantry", "simulate", *argv]),
    )


def _arms(text: str | None) -> list[str]:
    if text is None:
        return []
    from tenantry_bench.simulator import arms  # noqa: PLC0415 - imports vLLM

    names = [part.strip() for part in text.split(",")]
    return list(dict.fromkeys(arms.check(name) for name in names))


def _seeds(text: str | None) -> list[int]:
    if text is None:
        return list(DEFAULT_SEEDS)
    parts = [part.strip() for part in text.split(",")]
    whole = all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts)
    if not whole or len({int(part) for part in parts}) != len(parts):
        raise BadInputError(
            f"--seeds {text}: seeds are different whole numbers from 0 on, with commas between"
        )
    return [int(part) for part in parts]


def _count(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1024 <= int(text) <= 1_000_000_000):
        raise BadInputError(f"{flag} {text}: give a whole number of tokens from 1024 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = loads.seconds(text)
    except ValueError as error:
        raise BadInputError(f"--duration {text} {error}") from error
    if value < 1:
        raise BadInputError(f"--duration {text}: must be 1 second at least")
    return value


def _hush() -> None:
    """vLLM's log lines about the machine it is on say nothing about a simulated one."""
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    logging.getLogger("vllm").setLevel(logging.ERROR)


class Progress:
    """Says on standard error how far a run is, every few seconds of real time."""

    def __init__(self, title: str, until: float) -> None:
        self._title = title
        self._until = until
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, now: float) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            say(f"{self._title}: {now:,.0f} of {self._until:,.0f} s")


def _simulate(job: Job) -> int:
    found = Results()
    for scenario in job.scenarios:
        _scenario(job, scenario, found)
    if job.output == "json":
        print(json.dumps(_document(job, found), allow_nan=False, indent=1))  # noqa: T201
    return 0


def _scenario(job: Job, scenario: Scenario, found: Results) -> None:
    from tenantry_bench.simulator import measure, runner  # noqa: PLC0415 - import vLLM

    samples: dict[str, list[dict[str, Sample]]] = {}
    last: dict[str, Run] = {}
    chosen = list(job.arms) or list(scenario.arms)
    # `dedicated` goes first: the others' lateness is measured against it.
    for seed in job.seeds:
        dedicated = None
        for arm in sorted(chosen, key=lambda name: name != "dedicated"):
            title = f"{scenario.name} {arm} seed {seed}"
            began = time.monotonic()
            one = runner.run(scenario, arm, seed, job.options, Progress(title, scenario.duration))
            if arm == "dedicated":
                dedicated = one
            sample = measure.samples(one, dedicated)
            samples.setdefault(arm, []).append(sample)
            last[arm] = one
            found.rows += measure.rows(one, sample, seed=seed)
            say(f"{title}: {one.end:,.0f} s in {time.monotonic() - began:.1f} s")
    pooled: list[Row] = []
    for arm in chosen:
        only = job.seeds[0] if len(job.seeds) == 1 else None
        pooled += measure.rows(last[arm], measure.pooled(samples[arm]), seed=only)
    found.pooled += pooled
    if job.output == "table":
        print("\n".join([f"{scenario.name}: {scenario.text}", "", show.render(pooled), ""]))  # noqa: T201
        print("\n".join(show.notes(pooled, sentence=_sentence(job, scenario))), end="\n\n")  # noqa: T201


def _sentence(job: Job, scenario: Scenario) -> str:
    chosen = job.options
    note = "" if chosen.profile.calibrated else ", uncalibrated"
    made = f" {scenario.synthetic}." if scenario.synthetic else ""
    return (
        f"vLLM {_vllm()}'s scheduler on a virtual clock, step times of "
        f"{chosen.profile.name}{note} with 5 % noise, lengths {chosen.lengths}, step model "
        f"{chosen.model}, seeds {', '.join(map(str, job.seeds))}.{made}"
    )


def _document(job: Job, found: Results) -> dict[str, object]:
    """The results document: what an endpoint's has, and what only a simulation knows."""
    chosen = job.options
    body = results.document(About(job.command, own_version(), _vllm()), found.rows, EMPTY)
    body["engine"].update(
        max_num_seqs=chosen.seats,
        max_num_batched_tokens=chosen.tokens,
        block_size=chosen.block,
        blocks=chosen.blocks(job.scenarios[0].kv_tokens),
        async_scheduling=chosen.engine.use_async,
        enable_prefix_caching=chosen.engine.caching,
    )
    return body | {
        "simulated": True,
        "profile": {"name": chosen.profile.name, "calibrated": chosen.profile.calibrated},
        "lengths": str(chosen.lengths),
        "model": str(chosen.model),
        "dispatch_lateness": None,
    }


def _vllm() -> str:
    from tenantry_engine import offline  # noqa: PLC0415 - imports vLLM

    return offline.VERSION
