"""Fixtures of the engine's tests."""

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - as the metrics do
        listener.listen()
        yield listener.getsockname()[1]
