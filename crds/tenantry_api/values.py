"""The base of every type of the resource, and the values that JSON has no type for.

A `Quantity` is a `Decimal`: a whole number, or a text such as "0.5", "500m", "2k" or "1M". A
`Duration` is a `timedelta` of whole microseconds: a text such as "500ms" or "1m30s". Both are
written back in one canonical way, so that equal policies have equal bytes.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

QUANTITY_PATTERN = r"^([0-9]{1,7}([.][0-9]{1,3})?|[0-9]{1,10}m|[0-9]{1,4}k|1M)$"
DURATION_PATTERN = r"^([0-9]{1,12}([.][0-9]{1,6})?(h|m|s|ms|us))+$"
QUANTITY_LIMIT = Decimal(1_000_000)
DURATION_LIMIT = timedelta(days=7)
AUTO = "auto"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
NAME_MESSAGE = "must be the name of an object: lower-case letters, digits, `-` and `.`, at most 253"

_SCALES = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(1000), "M": Decimal(1_000_000)}
# From the longest: a duration is written in the first unit that divides it.
_UNITS: Mapping[str, int] = {
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}

QUANTITY_MESSAGE = (
    'must be a number from 0 to 1000000 in steps of 0.001: a whole number, or in quotes "0.5" or '
    '"500m"'
)
DURATION_MESSAGE = (
    'must be a duration above 0 and at most 168h, as "500ms", "30s" or "1m30s"; the units are '
    "h, m, s, ms, us"
)


def camel(name: str) -> str:
    """The name of a field in a document: `kv_cache` is `kvCache`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


class Part(BaseModel):
    """A part of the resource: frozen, camelCase in documents, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


def quantity(value: object) -> Decimal:
    """A quantity from what a document holds; ValueError says what may be written."""
    if isinstance(value, Decimal):
        value = quantity_text(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float) and re.fullmatch(QUANTITY_PATTERN, str(value)):
        raise ValueError(f'{QUANTITY_MESSAGE}; write "{value}", with the quotes')
    text = str(value) if type(value) in (int, str) else ""
    if not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(QUANTITY_MESSAGE)
    suffix = text[-1] if text[-1] in "mkM" else ""
    number = Decimal(text.removesuffix(suffix)) * _SCALES[suffix]
    if number > QUANTITY_LIMIT:
        raise ValueError(QUANTITY_MESSAGE)
    return number


def quantity_text(value: Decimal) -> str:
    """The canonical text: "3", or "500m" where thousandths are needed."""
    thousandths = value * 1000
    if thousandths % 1000 == 0:
        return str(int(value))
    return f"{int(thousandths)}m"


def duration(value: object) -> timedelta:
    """A duration from what a document holds; ValueError says what may be written."""
    if isinstance(value, timedelta):
        value = duration_text(value)
    if not isinstance(value, str) or not re.fullmatch(DURATION_PATTERN, value) or len(value) > 32:
        raise ValueError(DURATION_MESSAGE)
    pieces = re.findall(r"([0-9.]+)(h|ms|us|m|s)", value)
    micros = sum(Decimal(number) * _UNITS[unit] for number, unit in pieces)
    if not 1 <= micros <= DURATION_LIMIT // timedelta(microseconds=1):
        raise ValueError(DURATION_MESSAGE)
    return timedelta(microseconds=int(micros))


def duration_text(value: timedelta) -> str:
    """The canonical text: one number, in the longest unit that divides it."""
    micros = value // timedelta(microseconds=1)
    unit, size = next((unit, size) for unit, size in _UNITS.items() if micros % size == 0)
    return f"{micros // size}{unit}"


def budget(value: object) -> timedelta | None:
    """A duration, or None for `auto`."""
    if value is None or value == AUTO:
        return None
    try:
        return duration(value)
    except ValueError as error:
        raise ValueError(f"must be `auto`, or {str(error).removeprefix('must be ')}") from error


def budget_text(value: timedelta | None) -> str:
    """The inverse of `budget`."""
    return AUTO if value is None else duration_text(value)


def object_name(value: str) -> str:
    """The name of another object as it is; ValueError says what may be written."""
    if len(value) > 253 or not re.fullmatch(NAME_PATTERN, value):
        raise ValueError(NAME_MESSAGE)
    return value


def _schema(**extra: Any) -> WithJsonSchema:
    return WithJsonSchema(extra)


def _cel(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


_DURATION_CEL = (
    f"self.matches('{DURATION_PATTERN}') && duration(self) >= duration('1us') "
    "&& duration(self) <= duration('168h')"
)

Quantity = Annotated[
    Decimal,
    BeforeValidator(quantity),
    PlainSerializer(quantity_text, return_type=str),
    _schema(
        **{
            "x-kubernetes-int-or-string": True,
            "maxLength": 16,
            "x-kubernetes-validations": [
                _cel(
                    "type(self) == int ? self >= 0 && self <= 1000000 : "
                    f"self.matches('{QUANTITY_PATTERN}') && "
                    "quantity(self).compareTo(quantity('1M')) <= 0",
                    QUANTITY_MESSAGE,
                )
            ],
        }
    ),
]

Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    PlainSerializer(duration_text, return_type=str),
    _schema(
        **{
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [_cel(_DURATION_CEL, DURATION_MESSAGE)],
        }
    ),
]

StepBudget = Annotated[
    timedelta | None,
    BeforeValidator(budget),
    PlainSerializer(budget_text, return_type=str),
    _schema(
        **{
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [
                _cel(
                    f"self == 'auto' || ({_DURATION_CEL})",
                    f"must be `auto`, or {DURATION_MESSAGE.removeprefix('must be ')}",
                )
            ],
        }
    ),
]

Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Percent = Annotated[int, Field(strict=True, ge=0, le=100)]
Text = Annotated[str, Field(min_length=1, max_length=253)]
ObjectName = Annotated[
    str,
    AfterValidator(object_name),
    _schema(
        **{
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [_cel(f"self.matches('{NAME_PATTERN}')", NAME_MESSAGE)],
        }
    ),
]
