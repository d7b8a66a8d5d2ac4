"""What happens on a vLLM that is not shaped as we know it."""

import json
import logging
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from e2e import models, paths
from tenantry_engine import seams
from tenantry_engine.config import ConfigError
from tenantry_engine.metrics import own_version
from tenantry_engine.seams import Seam

PROGRAM = """
import json, os, sys
from vllm import LLM, SamplingParams

llm = LLM(sys.argv[1], dtype="float32", max_model_len=512, enforce_eager=True, block_size=32,
          num_gpu_blocks_override=50, scheduler_cls="tenantry_engine.scheduler.TenantryScheduler")
[answer] = llm.generate([{"prompt_token_ids": [5, 6, 7]}],
                        SamplingParams(max_tokens=4, ignore_eos=True), use_tqdm=False)
import urllib.request
page = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[2]}/metrics").read().decode()
kind = type(llm.llm_engine.engine_core.engine_core.scheduler)
print("found: " + json.dumps({
    "tokens": len(answer.outputs[0].token_ids),
    "scheduler": kind.__name__,
    "active": [line for line in page.splitlines() if line.startswith("tenantry_engine_active{")],
}), flush=True)
os._exit(0)
"""


class Owner:
    """Stands for a class of vLLM's."""

    declared: int

    def __init__(self) -> None:
        self.made = 1

    def method(self, request: Any, timestamp: float) -> None:
        """Stands for a method."""


@pytest.mark.parametrize(
    ("probe", "there"),
    [
        (seams.instance("made"), True),
        (seams.instance("declared"), True),
        (seams.instance("method"), True),
        (seams.instance("gone"), False),
        (seams.method("method"), True),
        (seams.method("method", "request", "timestamp"), True),
        (seams.method("method", "request", "drop_stale_output"), False),
        (seams.method("gone"), False),
        (seams.method("__doc__"), False),
    ],
    ids=[
        "set in __init__",
        "declared",
        "a method as an attribute",
        "no attribute",
        "a method",
        "with its parameters",
        "without a parameter",
        "no method",
        "not callable",
    ],
)
def test_a_probe_sees_what_is_there(probe: seams.Probe, there: bool) -> None:
    assert probe(Owner) is there


@pytest.mark.parametrize(
    "owner",
    ["no.such.module.Class", "collections.NoSuchClass"],
    ids=["no module", "no class"],
)
def test_a_seam_whose_owner_is_gone_is_missing(owner: str) -> None:
    seam = Seam(owner, "name", lambda _: True, "0.32", "everything")
    assert seams.missing((seam,)) == (seam,)


def test_every_seam_says_where_it_was_seen_and_what_for() -> None:
    for seam in seams.SEAMS:
        assert re.fullmatch(r"\d+\.\d+-\d+\.\d+", seam.versions)
        assert seam.purpose
    assert len({seam.path for seam in seams.SEAMS}) == len(seams.SEAMS)


def test_the_reference_lists_every_seam() -> None:
    text = (paths.checkout() / "docs" / "reference" / "engine.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `vllm.")]
    for seam in seams.SEAMS:
        assert any(f"`{seam.owner}`" in row and f"`{seam.name}`" in row for row in rows), seam.path


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("harness")
def test_this_vllm_has_every_seam() -> None:
    assert seams.missing() == ()


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
def test_a_scheduling_policy_of_vllm_s_own_is_refused(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    arguments = harness.arguments(harness.Size())
    arguments["vllm_config"].scheduler_config.policy = "priority"
    with pytest.raises(ConfigError, match="--scheduling-policy=priority cannot be used"):
        scheduler.TenantryScheduler(**arguments)


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_the_factory_picks_the_class_by_how_vllm_schedules(
    harness: Any, monkeypatch: pytest.MonkeyPatch, use_async: bool
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    made = scheduler.TenantryScheduler(**harness.arguments(harness.Size(), use_async=use_async))
    assert type(made).__name__ == ("FairAsyncScheduler" if use_async else "FairScheduler")


def vllm_version() -> str:
    """The version that vLLM calls itself by."""
    return str(sys.modules["vllm"].__version__)


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
def test_without_a_seam_vllm_s_own_scheduler_is_made_and_one_line_names_both_versions(
    harness: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    gone = Seam(seams.SCHEDULER, "gone", seams.instance("gone"), "0.32-0.33", "seats")
    monkeypatch.setattr(seams, "missing", lambda: (gone,))
    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    with caplog.at_level(logging.WARNING):
        made = scheduler.TenantryScheduler(**harness.arguments(harness.Size()))
    assert type(made).__module__ == "vllm.v1.core.sched.scheduler"
    said = [record.getMessage() for record in caplog.records]
    [line] = [each for each in said if "does not fit" in each]
    assert f"tenantry {own_version()}" in line
    assert f"vLLM {vllm_version()}" in line
    assert gone.path in line


@pytest.mark.engine
def test_an_engine_that_lacks_a_seam_serves_and_says_so(free_port: int) -> None:
    model = models.make("tiny", paths.cache() / "models" / "tiny")
    root = paths.checkout()
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "e2e" / "saboteur"), str(root)]),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TENANTRY_METRICS_PORT": str(free_port),
    }
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", PROGRAM, str(model), str(free_port)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    [found] = [line for line in lines if line.startswith("found: ")]
    assert json.loads(found.removeprefix("found: ")) == {
        "tokens": 4,
        "scheduler": "Scheduler",
        "active": ['tenantry_engine_active{policy="default",reason="SeamMissing"} 0.0'],
    }
    assert sum("does not fit vLLM" in line for line in lines) == 1
