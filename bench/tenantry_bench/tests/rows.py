"""A row with the defaults of a good run, for whoever shows or judges rows."""

from tenantry_bench.results import Row
from tenantry_core.quantiles import EMPTY, Summary


def a_row(arm: str = "stock", ttft: Summary = EMPTY, tenant: str = "quiet") -> Row:
    """150 requests of an open loop, 1,000 tokens in 50 seconds."""
    return Row(
        scenario="x",
        arm=arm,
        seed=1,
        tenant=tenant,
        loop="open",
        window=(7.0, 57.0),
        arrived=150,
        finished=150,
        refused=0,
        failed=0,
        unfinished=0,
        prompt_tokens=900,
        output_tokens=100,
        cached_tokens=None,
        service=1100,
        ttft=ttft,
        itl=EMPTY,
        e2e=EMPTY,
        tpot=EMPTY,
        measured_seconds=50.0,
    )
