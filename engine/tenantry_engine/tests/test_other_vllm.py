"""The tests that need vLLM's scheduler classes only, once more with those of another release."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import engines, paths

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent
GROUPS = (
    ("test_recount.py",),
    (
        "test_features.py",
        "test_aborts.py",
        "test_seams.py",
        "test_refusals.py",
        "test_life_cycle.py",
    ),
)
NEEDS_KERNELS = "test_an_engine_that_lacks_a_seam_serves_and_says_so"
SECONDS = 900


def environment() -> dict[str, str]:
    """Of a process that imports the other vLLM and our own sources."""
    path = os.pathsep.join(filter(None, (str(paths.checkout()), os.environ.get("PYTHONPATH"))))
    return engines.environment({**os.environ, "PYTHONPATH": path}, engines.other())


def test_the_scheduler_and_its_features_work_on_the_other_release_too() -> None:
    environ = environment()
    runs = [
        subprocess.Popen(  # noqa: S603 - ourselves
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("-k", f"not {NEEDS_KERNELS}", *(str(HERE / name) for name in group)),
            ],
            env=environ,
            cwd=paths.checkout(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for group in GROUPS
    ]
    said = [run.communicate(timeout=SECONDS)[0] for run in runs]
    for run, text in zip(runs, said, strict=True):
        assert run.returncode == 0, text[-4000:]
        assert " passed" in text


def test_it_is_the_other_release_that_those_tests_import() -> None:
    program = "import importlib.util; print(importlib.util.find_spec('vllm').origin)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(engines.other() / "vllm" / "__init__.py")
    assert f"'{engines.OTHER}'" in (engines.other() / "vllm" / "_version.py").read_text()
