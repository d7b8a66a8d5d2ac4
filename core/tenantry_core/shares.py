"""Weighted max-min division: what each claimant is entitled to of something scarce.

Amounts are exact (`int` or `Fraction`), so parts add up to the whole without a tolerance and the
result does not depend on the order of the claimants. The unit is the caller's; the extender
counts GPUs, and half a GPU is `Fraction(1, 2)`.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Amount = int | Fraction
ZERO = Fraction(0)


@dataclass(frozen=True)
class Claim:
    """One policy's claim: `weight` counts inside `group` (its namespace), `demand` is all it asks
    for, held and wanted together."""

    group: str
    name: str
    weight: Fraction
    demand: Fraction


def divide(
    capacity: Amount, weights: Mapping[Key, Amount], demands: Mapping[Key, Amount]
) -> dict[Key, Fraction]:
    """Divide `capacity` so that nobody gets more than its demand and what one leaves goes to the
    others by weight (max-min fairness).

    Claimants of weight 0 divide equally what all others leave. A key without a weight has no
    claim to be judged by: ValueError, as for any negative amount.
    """
    _check(capacity, weights, demands)
    weighted = {key: Fraction(weights[key]) for key in demands if weights[key] > 0}
    shares = _fill(Fraction(capacity), weighted, demands)
    rest = capacity - sum(shares.values(), ZERO)
    background = {key: Fraction(1) for key in demands if weights[key] == 0}
    return {**shares, **_fill(rest, background, demands)}


def entitlements(
    capacity: Amount, claims: Iterable[Claim], group_weights: Mapping[str, Fraction]
) -> dict[tuple[str, str], Fraction]:
    """Divide in two levels: between groups by `group_weights` (1 where absent), then inside each
    group by the weights of its claims. Keyed by (group, name).

    A claim of weight 0, and every claim in a group of weight 0, gets only what the claims of
    positive weight in ALL groups leave.
    """
    claims = list(claims)
    weight_of = {claim.group: group_weights.get(claim.group, Fraction(1)) for claim in claims}
    front = [claim for claim in claims if claim.weight > 0 and weight_of[claim.group] > 0]
    back = [claim for claim in claims if claim.weight == 0 or weight_of[claim.group] == 0]
    shares = _two_levels(Fraction(capacity), front, weight_of)
    rest = capacity - sum(shares.values(), ZERO)
    return {**shares, **_two_levels(rest, back, weight_of)}


def _two_levels(
    capacity: Fraction, claims: list[Claim], group_weights: Mapping[str, Fraction]
) -> dict[tuple[str, str], Fraction]:
    members: dict[str, list[Claim]] = {}
    for claim in claims:
        members.setdefault(claim.group, []).append(claim)
    between = divide(
        capacity,
        {group: group_weights[group] for group in members},
        {group: sum((c.demand for c in inside), ZERO) for group, inside in members.items()},
    )
    shares: dict[tuple[str, str], Fraction] = {}
    for group, inside in members.items():
        parts = divide(
            between[group],
            {(group, claim.name): claim.weight for claim in inside},
            {(group, claim.name): claim.demand for claim in inside},
        )
        shares.update(parts)
    return shares


def _fill(
    capacity: Fraction, weights: Mapping[Key, Fraction], demands: Mapping[Key, Amount]
) -> dict[Key, Fraction]:
    """Raise the level for all until each is satisfied or nothing is left; weights are positive."""
    shares: dict[Key, Fraction] = {}
    left, weight_left = capacity, sum(weights.values(), ZERO)
    for key in sorted(weights, key=lambda key: demands[key] / weights[key]):
        shares[key] = min(Fraction(demands[key]), left * weights[key] / weight_left)
        left -= shares[key]
        weight_left -= weights[key]
    return shares


def _check(capacity: Amount, weights: Mapping[Key, Amount], demands: Mapping[Key, Amount]) -> None:
    if capacity < 0:
        raise ValueError(f"capacity is {capacity}; it must not be negative")
    for key, demand in demands.items():
        if key not in weights:
            raise ValueError(f"{key!r} has a demand and no weight")
        if demand < 0 or weights[key] < 0:
            raise ValueError(f"{key!r} has a negative demand or weight")
