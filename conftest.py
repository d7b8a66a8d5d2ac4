"""How tests are dealt out where several workers run them (`pytest -n 2`), and what all may use."""

import signal
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

OWN_CLUSTERS: Final = ("test_extender_wire.py", "test_fair_share.py", "test_sandbox.py")
"""Files of `e2e/tests/` whose tests start clusters of their own."""

# How long an example takes says nothing where other workers share the processor.
settings.register_profile("tenantry", deadline=None)
settings.load_profile("tenantry")


class ByFile(LoadScopeScheduling):
    """Files stay together; one worker has all that share the session's cluster."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        shares = file.startswith("e2e/") and not file.endswith(OWN_CLUSTERS)
        return "the session's cluster" if shares else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """The scheduler of pytest-xdist for every `--dist`."""
    return ByFile(config, log)


@pytest.fixture
def heeding_ctrl_c() -> Iterator[None]:
    """What is started meanwhile heeds SIGINT, though a shell ignores it for all that it has put in
    the background, and they hand that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
