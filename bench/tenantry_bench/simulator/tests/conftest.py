"""Fixtures of the simulator's tests."""

import importlib
from typing import Any

import pytest


@pytest.fixture(scope="session")
def world() -> Any:
    """Runs on the real scheduler; imported by the tests that use it: vLLM takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CONFIGURE_LOGGING", "0")  # its set-up of loggers would hide records
        return importlib.import_module("tenantry_bench.simulator.tests.worlds")
