"""The load file: which tenants send what, how often and for how long.

The format is YAML and is described in `docs/reference/bench.md`. All mistakes of a file are
reported at once, each with its path and value.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tenantry_api.parse import yaml_words
from tenantry_bench.errors import BadInputError
from tenantry_bench.recorded import TraceRequest, read_trace

EVERYBODY = "*"
"""What results call all tenants together."""

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_TOKENS = 1_000_000
MAX_SECONDS = 30 * 86400.0


def seconds(value: object) -> float:
    """Return a duration (`7`, `0.5`, "7s", "500ms", "2m") in seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", str(value))
        if match is None:
            raise ValueError("is not a duration; write it like 7s or 500ms")
        number = float(match[1]) * UNITS[match[2] or "s"]
    if not 0 <= number <= MAX_SECONDS:
        raise ValueError("is not a duration from 0 s to 30 days")
    return number


Seconds = Annotated[float, BeforeValidator(seconds)]


class Uniform(BaseModel):
    """A length in tokens, every whole number from `low` to `high` as likely as any other."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    low: int = Field(ge=1, le=MAX_TOKENS)
    high: int = Field(ge=1, le=MAX_TOKENS)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("the first number is above the second; swap them")
        return self


class LogNormal(BaseModel):
    """A length in tokens, log-normal with this mean and coefficient of variation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    mean: float = Field(gt=0, le=MAX_TOKENS, allow_inf_nan=False)
    cv: float = Field(ge=0, le=10, allow_inf_nan=False)


def _lengths(value: object) -> object:
    """Accept `[low, high]`, `n` and `{mean:, cv:}`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Uniform(low=value, high=value)
    if isinstance(value, list) and len(value) == 2:
        return Uniform(low=value[0], high=value[1])
    if isinstance(value, dict) and "mean" in value:
        return LogNormal(**value)
    if isinstance(value, Uniform | LogNormal):
        return value
    raise ValueError("is not a length; write [24, 40] or {mean: 32, cv: 0.5}")


Lengths = Annotated[Uniform | LogNormal, BeforeValidator(_lengths)]


class TenantLoad(BaseModel):
    """What one tenant sends.

    With `connections` it is a closed loop: so many clients, each sending its next request when it
    has the answer to the last. Without, it is an open loop of `rate` requests a second, whatever
    comes back. `requests` is how many are measured, after the warm-up; without it the tenant sends
    until the others have theirs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(
        min_length=1, max_length=128, pattern=r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
    )
    process: Literal["poisson", "constant"] | None = None
    rate: float | None = Field(None, gt=0, le=10_000, allow_inf_nan=False, strict=True)
    connections: int | None = Field(None, ge=1, le=10_000, strict=True)
    requests: int | None = Field(None, ge=1, le=10_000_000, strict=True)
    start: Seconds = 0.0
    prompt: Lengths
    output: Lengths
    text: bool | None = Field(None, strict=True)

    @property
    def loop(self) -> Literal["open", "closed"]:
        return "open" if self.connections is None else "closed"

    @model_validator(mode="after")
    def _one_loop(self) -> Self:
        if (self.rate is None) == (self.connections is None):
            raise ValueError("give either rate (open loop) or connections (closed loop)")
        if self.connections is not None and self.process is not None:
            raise ValueError("process belongs to rate; a closed loop has none")
        return self


class Load(BaseModel):
    """A whole load: either `tenants` or a recorded `trace`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = ""
    seed: int = Field(1, ge=0, strict=True)
    warmup: Seconds = 0.0
    duration: Seconds | None = None
    text: bool = Field(False, strict=True)
    tenants: tuple[TenantLoad, ...] = ()
    trace: tuple[TraceRequest, ...] = ()

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if bool(self.tenants) == bool(self.trace):
            raise ValueError("give either tenants or trace")
        names = [tenant.name for tenant in self.tenants]
        if EVERYBODY in names:
            raise ValueError(f"no tenant may be called {EVERYBODY}: results mean everybody by it")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"tenant names must differ; given twice: {', '.join(twice)}")
        if self.duration is not None and self.duration <= self.warmup:
            raise ValueError(
                f"duration must be longer than warmup ({self.warmup:g} s), or nothing is measured"
            )
        return self

    @property
    def ends(self) -> bool:
        """Whether the load ends by itself."""
        counted = any(tenant.requests is not None for tenant in self.tenants)
        return counted or bool(self.trace) or self.duration is not None

    def with_duration(self, duration: float | None) -> Load:
        """Return the load with another end; raises BadInputError when it then has none."""
        body = {**dict(self), "duration": self.duration if duration is None else duration}
        try:
            load = Load(**body)
        except ValidationError as error:
            raise BadInputError(f"--duration {duration}: {_sentence(error)}") from error
        if not load.ends:
            raise BadInputError(
                f"the load {self.name} has no end; give a tenant `requests`, or pass --duration S"
            )
        return load


class _UniqueKeys(yaml.SafeLoader):
    """YAML where a key given twice is a mistake, not a silent replacement."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} is given twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


MESSAGES = {
    "extra_forbidden": "is no field here; docs/reference/bench.md lists those that are",
    "missing": "is required",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of fields",
    "string_type": "must be a text; put it in quotes",
    "string_pattern_mismatch": "must be printable ASCII without a space at either end: it is sent "
    "as a header",
}
"""Kinds of finding whose own words are no help in a YAML file."""


def _sentence(error: ValidationError) -> str:
    """Return every finding as `path: what is wrong, got value`."""
    parts = []
    for found in error.errors(include_url=False):
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in found["loc"])
        message = MESSAGES.get(found["type"]) or found["msg"].removeprefix("Value error, ")
        given = found["input"]
        shown = f", got {given!r}" if isinstance(given, str | int | float | list) else ""
        parts.append(f"{path.lstrip('.') or 'load'}: {message}{shown}")
    return "; ".join(parts)


def parse(text: str, where: str, folder: Path, name: str = "") -> Load:
    """Return the load of a YAML `text`; `trace: FILE` is looked for in `folder`.

    Raises BadInputError with all findings; `where` names the file in it.
    """
    try:
        body = yaml.load(text, _UniqueKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # of a date or number, too deep
        raise BadInputError(f"{where} is not YAML: {yaml_words(error)}") from error
    if not isinstance(body, dict):
        raise BadInputError(f"{where}: a load file is a mapping with `tenants` or `trace`")
    if isinstance(body.get("trace"), str):
        body = {**body, "trace": load_trace(folder / body["trace"])}
    try:
        return Load(**{"name": name, **{str(key): value for key, value in body.items()}})
    except ValidationError as error:
        raise BadInputError(f"{where}: {_sentence(error)}") from error


def load_trace(path: Path) -> tuple[TraceRequest, ...]:
    return read_trace(_read(path), str(path))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--load {path}: cannot read it: {error}") from error


def shipped() -> tuple[str, ...]:
    """Return the names of the loads that come with the product."""
    folder = resources.files("tenantry_bench") / "loads"
    return tuple(sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".yaml")))


def find(argument: str) -> Load:
    """Return the load that `--load` names: a file, or one of those that come with the product."""
    path = Path(argument)
    if argument in shipped():
        source = resources.files("tenantry_bench") / "loads" / f"{argument}.yaml"
        return parse(source.read_text(encoding="utf-8"), argument, Path(), argument)
    if not path.is_file():
        known = ", ".join(shipped())
        raise BadInputError(f"--load {argument}: neither a file nor one of the loads {known}")
    if path.suffix == ".jsonl":
        return Load(name=path.stem, trace=load_trace(path))
    return parse(_read(path), str(path), path.parent, path.stem)
