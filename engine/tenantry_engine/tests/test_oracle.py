"""On the real engine, greedy outputs are the same with our scheduler and without it."""

import pytest

from tenantry_engine.tests import oracle

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def results() -> dict[str, list[oracle.Result]]:
    """What every arm gave."""
    return oracle.run_all()


@pytest.mark.parametrize("prompts", oracle.PROMPTS)
def test_no_token_depends_on_who_schedules_it_or_in_which_order(
    results: dict[str, list[oracle.Result]], prompts: str
) -> None:
    assert list(oracle.findings(results[prompts], prompts)) == []
