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
from tenantry_engine.metrics import own_version
from tenantry_engine.seams import Seam
from tenantry_engine.tests import seam_table

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
        self.deferred_made = 2

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
        (seams.alone("made"), False),
        (seams.alone("made", "deferred_made"), True),
        (seams.alone("deferred_made"), True),
        (seams.alone("gone"), False),
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
        "one of a kind that is not known",
        "all of a kind are known",
        "the only one of a kind",
        "none of a kind",
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


def test_every_seam_says_where_it_was_seen_what_for_and_what_is_without_it() -> None:
    for seam in seams.SEAMS:
        assert re.fullmatch(r"\d+\.\d+-\d+\.\d+", seam.versions)
        assert seam.purpose
        assert seam.without in (seams.STOCK, seams.NOBODY, seams.EMPTY)
    assert len({seam.path for seam in seams.SEAMS}) == len(seams.SEAMS)


def test_the_reference_shows_the_table() -> None:
    text = seam_table.page().read_text()
    assert text == seam_table.with_table(text), "run `python -m tenantry_engine.tests.seam_table`"


def test_every_name_of_vllm_s_that_the_sources_touch_is_in_the_table() -> None:
    known = {seam.name for seam in seams.SEAMS}
    classes = {seam.owner for seam in seams.SEAMS}
    lacking = {
        f"{place}: {name}"
        for name, place in seam_table.touched()
        if name not in known and name not in classes
    }
    assert not lacking, "add a row to tenantry_engine.seams for each"


def test_every_name_of_the_table_is_touched() -> None:
    mentioned = {*seam_table.mentioned(), *seam_table.overridden()}
    idle = {s.path for s in seams.SEAMS if not {s.name, s.owner} & mentioned}
    assert not idle, "these rows are not needed"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(request): return request.num_gone", {"num_gone"}),
        ("def f(request): return request.running", {"running"}),
        ("class C:\n    def f(self): return self._scheduler.not_there", {"not_there"}),
        ("def f(x): return getattr(x, 'not_there', 0)", {"not_there"}),
        ("def f(x): return x.items()", set()),
        ("from vllm.v1.request import Gone", {"vllm.v1.request.Gone"}),
    ],
    ids=[
        "an attribute",
        "one with a name of ours",
        "of the scheduler",
        "by getattr",
        "ours",
        "import",
    ],
)
def test_the_search_finds(source: str, found: set[str]) -> None:
    assert set(seam_table.foreign(source, "x.py")) == found


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("harness")
def test_this_vllm_has_every_seam() -> None:
    assert seams.missing() == ()


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
@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize("seam", seams.SEAMS, ids=lambda seam: seam.path.rpartition("vllm.")[2])
def test_each_probe_sees_that_its_name_is_gone(seam: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seams.there(seam)
    seam_table.take_away(seam, monkeypatch)
    assert not seams.there(seam)
    assert (seam in seams.missing()) is (seam.without != seams.EMPTY)


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_without_any_one_of_them_vllm_s_own_scheduler_is_made_and_one_line_names_both_versions(
    harness: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    use_async: bool,
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    arguments = harness.arguments(harness.Size(), use_async=use_async)
    caplog.set_level(logging.WARNING)
    for gone in (seam for seam in seams.SEAMS if seam.needed):
        with monkeypatch.context() as patch:
            seam_table.take_away(gone, patch)
            lacking = seams.missing()
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(seams, "missing", lambda lacking=lacking: lacking)
            made = scheduler.TenantryScheduler(**arguments)
        assert type(made).__name__ == ("AsyncScheduler" if use_async else "Scheduler")
        said = [record.getMessage() for record in caplog.records]
        [line] = [each for each in said if "does not fit" in each]
        for part in (f"tenantry {own_version()}", f"vLLM {vllm_version()}", gone.path):
            assert part in line


@pytest.mark.parametrize("seam", [s for s in seams.SEAMS if not s.needed], ids=lambda s: s.name)
def test_what_is_needed_for_figures_only_does_not_switch_the_scheduler_off(seam: Seam) -> None:
    broken = Seam(seam.owner, seam.name, lambda _: False, seam.versions, seam.purpose, seam.without)
    assert seams.missing((broken,)) == ()


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
