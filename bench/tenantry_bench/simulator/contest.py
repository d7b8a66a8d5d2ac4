"""The arms of a comparison by name. Knows no engine, so that a wrong name is told at once."""

from __future__ import annotations

from typing import Final

from tenantry_api.choices import Ordering
from tenantry_bench.errors import BadInputError
from tenantry_core.ordering import ORDERINGS

STOCK: Final = "stock"
PRIORITY: Final = "stock-priority"
TENANTRY: Final = "tenantry"
ALONE: Final = "alone"
DEDICATED: Final = "dedicated"
VTC: Final = "VTC"
APART: Final = (ALONE, DEDICATED)
"""Arms in which every tenant has an engine of its own."""


def known() -> tuple[str, ...]:
    """The names of all arms; `tenantry:ORDERING` is the policy with another ordering."""
    return (STOCK, PRIORITY, TENANTRY, ALONE, DEDICATED, VTC, *(each.value for each in Ordering))


def has_policy(name: str) -> bool:
    """Whether a policy that is given is the policy of this arm."""
    return name.partition(":")[0] == TENANTRY


def check(name: str) -> str:
    """Return the arm's name. Raises BadInputError where there is none."""
    base, colon, ordering = name.partition(":")
    orderings = [each.value for each in Ordering]
    if (name not in known()) if not colon else (base != TENANTRY or ordering not in orderings):
        raise BadInputError(
            f"--arms: there is no arm {name}; there are {', '.join(known())} and tenantry:ORDERING"
        )
    wanted = ordering if colon else base
    if wanted in orderings and wanted not in ORDERINGS:
        raise BadInputError(f"--arms {name}: this version does not order by {wanted}")
    return name
