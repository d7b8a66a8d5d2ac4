"""The arguments of `tenantry simulate`, checked: every mistake is one sentence."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tenantry_api import parse
from tenantry_bench import load as loads
from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import catalogue, contest, options, profiles, public, traces
from tenantry_engine import config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.simulator.scenario import Scenario

PROGRAM = "tenantry simulate"
DEFAULT_PROFILE = "a100-llama3-8b"
DEFAULT_SEEDS = (11, 12, 13)
LEAST_KV = 1024
ENGINE_ARGS = "--engine-args"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message}; --help lists the arguments")


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = _Parser(
        prog=PROGRAM,
        description="Run the real vLLM scheduler, with and without Tenantry, on a virtual clock.",
        allow_abbrev=False,
    )
    made.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="a name that --list shows")
    made.add_argument("--list", action="store_true", help="show scenarios and profiles, and end")
    made.add_argument("--trace", type=Path, metavar="FILE", help="replay a trace (JSON lines)")
    made.add_argument("--data", type=Path, metavar="DIR", help="folder of public data")
    made.add_argument("--policy", type=Path, metavar="FILE", help="the policy of the arm tenantry")
    made.add_argument("--arms", metavar="A,B", help="default: those of the scenario")
    made.add_argument("--seeds", metavar="N,N", help="one run each (default: 11,12,13)")
    made.add_argument("--profile", default=DEFAULT_PROFILE, metavar="NAME|FILE", help="the GPU")
    made.add_argument(ENGINE_ARGS, default="", metavar='"..."', help="as for vllm serve")
    made.add_argument("--kv-tokens", metavar="N", help="size of the KV cache in tokens")
    made.add_argument("--duration", metavar="S", help="seconds in which requests arrive")
    made.add_argument("--lengths", default="learned", metavar="learned|oracle|noisy:S")
    made.add_argument("--model", default="learned", metavar="learned|oracle|bias:X")
    made.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    made.add_argument("--report", type=Path, metavar="FILE.html", help="write a report as well")
    return made


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments. Raises BadInputError.

    argparse takes a value that begins with a dash for a flag; that of `--engine-args` always does.
    """
    words = list(argv)
    while ENGINE_ARGS in words[:-1]:
        at = words.index(ENGINE_ARGS)
        words[at : at + 2] = [f"{ENGINE_ARGS}={words[at + 1]}"]
    return parser().parse_args(words)


@dataclass(frozen=True)
class Job:
    """What was asked for, checked. Without `arms` every scenario has its own."""

    scenarios: Sequence[Scenario]
    arms: Sequence[str]
    seeds: Sequence[int]
    options: options.Options
    output: str
    report: Path | None
    command: str

    def arms_of(self, scenario: Scenario) -> list[str]:
        """The arms to run, in the order in which they are shown. Raises BadInputError."""
        return list(self.arms) or [contest.check(name) for name in scenario.arms]


def checked(given: argparse.Namespace, argv: Sequence[str]) -> Job:
    """Return the job. Raises BadInputError for whatever cannot be used."""
    scenarios = _scenarios(given)
    if given.report is not None and not given.report.parent.is_dir():
        raise BadInputError(f"--report {given.report}: there is no folder {given.report.parent}")
    arms = _arms(given.arms)
    if given.policy is not None and arms and not any(map(contest.has_policy, arms)):
        raise BadInputError(
            f"--policy {given.policy}: only the arm {contest.TENANTRY} has a policy: "
            "name it in --arms"
        )
    chosen = options.Options(
        profile=profiles.find(given.profile),
        engine=options.engine(given.engine_args),
        kv_tokens=_count("--kv-tokens", given.kv_tokens),
        lengths=options.told("--lengths", given.lengths, "noisy"),
        model=options.told("--model", given.model, "bias"),
        policy=None if given.policy is None else policy(given.policy),
    )
    return Job(
        scenarios=scenarios,
        arms=arms,
        seeds=_seeds(given.seeds),
        options=chosen,
        output=given.output,
        report=given.report,
        command=shlex.join(["tenantry", "simulate", *argv]),
    )


def _scenarios(given: argparse.Namespace) -> list[Scenario]:
    found = [each for name in given.scenarios for each in catalogue.find(name)]
    if given.data is not None:
        if not given.data.is_dir():
            raise BadInputError(f"--data {given.data}: there is no such folder")
        found = [public.filled(each, given.data) for each in found]
    if given.trace is not None:
        found.append(traces.scenario(given.trace))
    if not found:
        raise BadInputError("name a scenario (--list shows them), or give --trace FILE")
    if given.duration is not None:
        duration = _seconds(given.duration)
        found = [each.lasting(duration) for each in found]
    return list(dict.fromkeys(found))


def policy(path: Path) -> config.EngineConfig:
    """Return the engine's part of a policy file. Raises BadInputError."""
    try:
        return config.of_policy(parse.text(path.read_text(encoding="utf-8"), str(path)))
    except parse.Invalid as error:
        raise BadInputError(f"--policy {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--policy {path}: cannot read it: {error}") from error


def _arms(text: str | None) -> list[str]:
    if text is None:
        return []
    names = [part.strip() for part in text.split(",")]
    return list(dict.fromkeys(contest.check(name) for name in names))


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
    if not (text.isascii() and text.isdigit() and LEAST_KV <= int(text) <= 10**9):
        raise BadInputError(f"{flag} {text}: give a whole number of tokens from {LEAST_KV} on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = loads.seconds(text)
    except ValueError as error:
        raise BadInputError(f"--duration {text} {error}") from error
    if value < 1:
        raise BadInputError(f"--duration {text}: must be 1 second at least")
    return value


def listing() -> str:
    """Return scenarios, families and profiles, a line each."""
    found = catalogue.SCENARIOS
    width = max(map(len, (*found, *profiles.shipped())))
    lines = ["scenarios:"]
    lines += [f"{name.ljust(width)}  {scenario.text}" for name, scenario in found.items()]
    for family in catalogue.FAMILIES:
        members = ", ".join(each.name for each in catalogue.find(family))
        lines.append(f"{family.ljust(width)}  all of {members}")
    lines += ["", "profiles:"]
    for name in profiles.shipped():
        each = profiles.find(name)
        note = "" if each.calibrated else " (uncalibrated)"
        lines.append(f"{name.ljust(width)}  {each.model} on {each.gpu}{note}")
    return "\n".join(lines)
