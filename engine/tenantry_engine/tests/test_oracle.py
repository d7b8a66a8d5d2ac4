"""On the real engine, greedy outputs are the same with our scheduler and without it."""

import pytest

from tenantry_engine.tests import oracle

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("prompts", oracle.PROMPTS)
def test_no_token_depends_on_who_schedules_it(prompts: str) -> None:
    cases = [case for case in oracle.CASES if case.prompts == prompts]
    results = {case.name: oracle.run(case) for case in cases}
    assert list(oracle.findings(results, prompts)) == []
