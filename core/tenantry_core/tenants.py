"""Tenants and their weights, as one line of text: `gold=3,free=1,*=1`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

DEFAULT = "default"
OTHER = "other"
REST = "*"
LEAST, MOST = Decimal("1e-9"), Decimal("1e9")
ONE = Decimal(1)
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
_EXAMPLE = "gold=3,free=1"


@dataclass(frozen=True)
class Tenants:
    """Weights by tenant name, and the weight of every tenant not named. Only ratios count."""

    weights: Mapping[str, Decimal]
    rest: Decimal = ONE

    def weight_of(self, tenant: str) -> Decimal:
        """The weight of any tenant, named or not."""
        return self.weights.get(tenant, self.rest)

    def __str__(self) -> str:
        """The text that `parse_shares` reads back."""
        named = [f"{name}={weight}" for name, weight in self.weights.items()]
        return ",".join([*named, f"{REST}={self.rest}"])


@dataclass(frozen=True)
class Shares:
    """What a share text says: the tenants, and sentences that the user should see once."""

    tenants: Tenants
    notices: tuple[str, ...] = field(default=())


def parse_shares(text: str) -> Shares:
    """The shares in `text`: `NAME=WEIGHT` items with commas between, or one bare weight.

    A weight is a decimal from 1e-9 to 1e9, spaces are ignored, `*` is every tenant not named. A
    bare weight is that of tenant `default`. Raises ValueError with one sentence that names the
    item.
    """
    items = [item.strip() for item in text.split(",")]
    if items == [""]:
        raise ValueError(f"no share is given: write for example {_EXAMPLE}")
    if len(items) == 1 and "=" not in items[0]:
        return _bare(items[0])
    weights: dict[str, Decimal] = {}
    for item in items:
        name, weight = _pair(item)
        if name in weights:
            raise ValueError(f"item {item!r}: {name!r} is given twice, keep one of them")
        weights[name] = weight
    rest = weights.pop(REST, ONE)
    return Shares(Tenants(weights, rest))


def _bare(item: str) -> Shares:
    if not _NUMBER.fullmatch(item):
        raise ValueError(
            f"item {item!r} is neither a weight nor NAME=WEIGHT: write for example {_EXAMPLE}"
        )
    weight = _weight(item, item)
    notice = (
        f"the share {item} is the weight of tenant `{DEFAULT}` alone: with one tenant it has no "
        f"effect. Name the tenants, for example {_EXAMPLE}"
    )
    return Shares(Tenants({DEFAULT: weight}), (notice,))


def _pair(item: str) -> tuple[str, Decimal]:
    if not item:
        raise ValueError(f"an item is empty: put one comma between two items, as in {_EXAMPLE}")
    name, equals, weight = (part.strip() for part in item.partition("="))
    if not equals and _NUMBER.fullmatch(item):
        raise ValueError(f"item {item!r} has no tenant name: write NAME={item}")
    if not equals:
        raise ValueError(f"item {item!r} has no weight: write {item}=1")
    if not name:
        raise ValueError(f"item {item!r} has no tenant name: write NAME={weight or '1'}")
    if not name.isprintable() or len(name) > 128:
        raise ValueError(f"item {item!r}: a tenant name is at most 128 printable characters")
    if name == OTHER:
        raise ValueError(
            f"item {item!r}: {OTHER!r} is the metric label of everybody who has none, choose "
            "another name"
        )
    return name, _weight(item, weight)


def _weight(item: str, text: str) -> Decimal:
    if not text:
        raise ValueError(f"item {item!r} has no weight: write a decimal above 0 after `=`")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"item {item!r}: the weight {text!r} must be a finite decimal above 0")
    weight = Decimal(text)
    if weight <= 0:
        raise ValueError(f"item {item!r}: the weight must be above 0, it is {text}")
    if not LEAST <= weight <= MOST:
        raise ValueError(
            f"item {item!r}: the weight must be from {LEAST:e} to {MOST:e}; only ratios count"
        )
    return weight
