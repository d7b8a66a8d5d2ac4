"""Fixtures of the engine's tests."""

import importlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - as the metrics do
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture(scope="session")
def harness() -> Any:
    """The scheduler's harness, imported by tests that run: it imports vLLM, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CONFIGURE_LOGGING", "0")  # its set-up of loggers would hide records
        return importlib.import_module("tenantry_engine.tests.harness")


@pytest.fixture(scope="session")
def recount(harness: Any) -> Any:  # noqa: ARG001 - which has imported vLLM as it should be
    """Random runs with a recount, imported as late as the harness is."""
    return importlib.import_module("tenantry_engine.tests.recount")


@pytest.fixture(scope="session")
def features(harness: Any) -> Any:  # noqa: ARG001 - which has imported vLLM as it should be
    """Engines with other features of vLLM's, imported as late as the harness is."""
    return importlib.import_module("tenantry_engine.tests.features")


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def two_free_ports() -> int:
    """The first of two ports in a row that nobody listens on."""
    for first in range(20000, 30000, 2):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("0.0.0.0", first))  # noqa: S104 - as the metrics do
                other.bind(("0.0.0.0", first + 1))  # noqa: S104
            except OSError:
                continue
            return first
    raise AssertionError("no two free ports")
