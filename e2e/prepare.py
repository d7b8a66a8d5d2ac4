"""`python -m e2e.prepare`: fetch and build all that tests and the demo need, once per version."""

import signal
import sys
import time
from collections.abc import Callable

from e2e import build, engines, fetch, paths, system, tools
from e2e.problem import EXIT, Problem, sentence

INTERRUPTED = 130


def kubectl() -> str:
    """kubectl, proven to run."""
    return tools.version(tools.kubectl())


def helm() -> str:
    """helm, proven to run."""
    return tools.version(tools.helm())


def models() -> str:
    """The models that the real engine serves in tests and in the demo."""
    from e2e.models import make  # noqa: PLC0415 - torch comes with it, and takes seconds

    folder = paths.cache() / "models"
    for kind in ("tiny", "small"):
        make(kind, folder / kind)
    return str(folder)


def namespaces() -> str:
    """What the sandbox needs of the system."""
    system.ensure()
    return "private namespaces work here"


STEPS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("namespaces", namespaces),
    ("kubectl", kubectl),
    ("helm", helm),
    ("models", models),
    ("second vLLM", lambda: str(engines.other())),
    ("control plane", lambda: str(build.control_plane())),
)
"""The quick ones first: what cannot work here is said before the minutes of the build."""


def everything() -> None:
    """Do every step with one line of progress each; a `Problem` where one fails."""
    for number, (name, step) in enumerate(STEPS, start=1):
        begun = time.monotonic()
        result = step()
        took = time.monotonic() - begun
        fetch.say(f"prepare {number}/{len(STEPS)}: {name}: {result} ({took:.1f} s)")


def main() -> int:
    """The command; returns its exit status."""
    # Being terminated ends the build's processes as an interruption does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        everything()
    except (Problem, OSError) as error:
        fetch.say(f"prepare: {sentence(error)}")
        return EXIT
    except KeyboardInterrupt:
        fetch.say("prepare: interrupted; what was finished stays, the rest starts over next time")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
