"""An installed package changes nothing in a vLLM that does not ask for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import models, paths
from tenantry_api import names
from tenantry_engine.tests.server import ENVIRONMENT, vllm_serve

pytestmark = pytest.mark.engine

STOCK = """
import json, os, sys
from prometheus_client import REGISTRY
from vllm import LLM, SamplingParams
from vllm.v1.engine.output_processor import OutputProcessor

llm = LLM(sys.argv[1], dtype="float32", max_model_len=512, enforce_eager=True, block_size=32,
          num_gpu_blocks_override=50)
llm.generate([{"prompt_token_ids": [5, 6, 7]}], SamplingParams(max_tokens=2), use_tqdm=False)
kind = type(llm.llm_engine.engine_core.engine_core.scheduler)
found = {
    "modules": sorted(name for name in sys.modules if name.startswith("tenantry")),
    "metrics": [one.name for one in REGISTRY.collect() if one.name.startswith("tenantry")],
    "scheduler": f"{kind.__module__}.{kind.__name__}",
    "wrapped": hasattr(OutputProcessor.add_request, "__wrapped__"),
}
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
sys.stdout.flush()
os._exit(0)
"""


def test_a_vllm_that_does_not_ask_for_it_has_nothing_of_ours(tmp_path: Path) -> None:
    program, answer = tmp_path / "stock.py", tmp_path / "found.json"
    program.write_text(STOCK)
    model = models.make("tiny", paths.cache() / "models" / "tiny")
    environ = {**os.environ, **ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    for name in (names.ENV_POLICY, names.ENV_SHARE):
        environ.pop(name, None)
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(program), str(model), str(answer)],
        env=environ,
        check=True,
        timeout=240,
    )
    assert json.loads(answer.read_text()) == {
        "modules": ["tenantry_engine", "tenantry_engine.plugin"],
        "metrics": [],
        "scheduler": "vllm.v1.core.sched.scheduler.Scheduler",
        "wrapped": False,
    }


@pytest.mark.parametrize(
    ("given", "status", "sentence"),
    [
        ({names.ENV_SHARE: "gold=3,free=0"}, 2, "item 'free=0'"),
        ({names.ENV_METRICS_PORT: "{port}"}, 3, "is in use"),
    ],
    ids=["bad share", "port in use"],
)
def test_bad_input_ends_vllm_serve_before_it_loads_a_model(
    given: dict[str, str], status: int, sentence: str, taken_port: int
) -> None:
    extra = {name: value.format(port=taken_port) for name, value in given.items()}
    ours = ("--scheduler-cls", names.SCHEDULER_CLASS, "--middleware", names.MIDDLEWARE)
    model = models.make("tiny", paths.cache() / "models" / "tiny")
    ended = subprocess.run(  # noqa: S603 - our own environment
        [*vllm_serve(), str(model), *ours],
        env={**os.environ, **ENVIRONMENT, **extra},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == status, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("tenantry:")]
    assert sentence in line
    assert "Traceback" not in ended.stderr
