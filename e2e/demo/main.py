"""The demo's command: prepare, measure, judge, show, and leave nothing behind."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

from e2e import prepare
from e2e.demo import engines, kube, show
from e2e.demo.arms import SEEDS, Pass, Place, measure
from e2e.demo.gates import Judgement, Verdict, judge
from e2e.demo.progress import Progress
from e2e.problem import EXIT, Problem, sentence
from tenantry_bench.errors import BadInputError

INTERRUPTED = 130
STOPS = (signal.SIGINT, signal.SIGTERM)
MakePlace = Callable[[Path, Progress], AbstractContextManager[Place]]


def main(argv: Sequence[str]) -> int:
    """Run the demo; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--engine-only", action="store_true", help="without Kubernetes")
    options = parser.parse_args(argv)
    progress = Progress()
    for number in STOPS:
        signal.signal(number, _interrupt)
    try:
        return _run(options.engine_only, progress)
    except (Problem, OSError, TimeoutError, BadInputError) as error:
        progress.say(f"demo: {sentence(error)}")
        return EXIT
    except KeyboardInterrupt:
        progress.say("demo: interrupted; nothing is left running")
        return INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End the demo; a second signal must not end the cleaning up."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(engine_only: bool, progress: Progress) -> int:
    begun = time.monotonic()
    with progress.step("prepare"):
        prepare.models() if engine_only else prepare.everything()
    make: MakePlace = engines.place if engine_only else kube.place
    with make(show.folder(), progress) as place:
        measured, judgement = passes(lambda seed: measure(place, seed, progress), progress)
    command = f"make {'demo-engine' if engine_only else 'demo'}"
    picture, results = show.write(measured, judgement, command)
    sys.stdout.write(f"{show.report(measured, judgement)}\n")
    sys.stdout.write(f"picture: {picture}\nresults: {results}\n{show.verdict_line(judgement)}\n")
    sys.stdout.flush()
    progress.say(f"the demo took {time.monotonic() - begun:.0f} s")
    return int(judgement.verdict)


def passes(one: Callable[[int], Pass], progress: Progress) -> tuple[Pass, Judgement]:
    """Measure once, and once more when the machine was too busy to tell anything."""
    measured = one(SEEDS[0])
    judgement = judge(measured)
    for seed in SEEDS[1:]:
        if judgement.verdict is not Verdict.BUSY:
            break
        progress.say(f"the machine is too busy: {show.busy(judgement)}; the arms are repeated once")
        measured = one(seed)
        judgement = judge(measured)
    return measured, judgement
