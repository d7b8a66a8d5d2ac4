"""Fixtures of the simulator's tests."""

import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def world() -> Any:
    """Runs on the real scheduler; imported by the tests that use it: vLLM takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CONFIGURE_LOGGING", "0")  # its set-up of loggers would hide records
        return importlib.import_module("tenantry_bench.simulator.tests.worlds")


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """vLLM's log is as it was when a test is over: the commands silence it for their process."""
    vllm, variable = logging.getLogger("vllm"), "VLLM_CONFIGURE_LOGGING"
    level = vllm.level
    monkeypatch.setenv(variable, os.environ.get(variable, "1"))
    yield
    vllm.setLevel(level)
