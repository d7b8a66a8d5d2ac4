"""What a simulation is run with: the engine's size, what the plugin is told, the policy."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from tenantry_bench.errors import BadInputError

if TYPE_CHECKING:
    from tenantry_bench.simulator.profiles import Profile
    from tenantry_engine.config import EngineConfig

LEARNED = "learned"


@dataclass(frozen=True, slots=True)
class Told:
    """How the plugin knows something: `learned`, `oracle`, or off by `value` (`noisy`, `bias`)."""

    kind: str = LEARNED
    value: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}:{self.value:g}" if self.kind in ("noisy", "bias") else self.kind


def told(flag: str, text: str, wrong: str) -> Told:
    """Return what `--lengths` or `--model` asks for; `wrong` is the kind that takes a number.

    Raises BadInputError.
    """
    if text in (LEARNED, "oracle"):
        return Told(text)
    kind, colon, number = text.partition(":")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if kind != wrong or not colon or not 0 < value < 100:
        raise BadInputError(
            f"{flag} {text}: give learned, oracle or {wrong}:X with a number X above 0, "
            f"like {wrong}:0.7"
        )
    return Told(wrong, value)


@dataclass(frozen=True, slots=True)
class Engine:
    """vLLM's own settings. None leaves the profile's."""

    seats: int | None = None
    tokens: int | None = None
    block: int | None = None
    caching: bool = True
    use_async: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """All that is the same for every arm of a simulation.

    `policy` is the arm `tenantry`; None gives every tenant of a scenario its weight.
    """

    profile: Profile
    engine: Engine = Engine()
    kv_tokens: int | None = None
    lengths: Told = Told()
    model: Told = Told()
    policy: EngineConfig | None = None

    @property
    def seats(self) -> int:
        """Requests that run at once."""
        return self.engine.seats or self.profile.max_num_seqs

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.engine.tokens or self.profile.max_num_batched_tokens

    @property
    def block(self) -> int:
        """Tokens of a KV block."""
        return self.engine.block or self.profile.block_size

    def blocks(self, scenario: int | None) -> int:
        """KV blocks of the engine: as asked for, or the scenario's, or the profile's."""
        return max((self.kv_tokens or scenario or self.profile.kv_tokens) // self.block, 2)

    def with_profile(self, profile: Profile) -> Options:
        """The same on another GPU."""
        return replace(self, profile=profile)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        known = " ".join(f"{action.option_strings[0]}" for action in self._actions)
        raise BadInputError(f"--engine-args: {message}; understood are {known}")


def engine(text: str) -> Engine:
    """Return the settings in `--engine-args`, words as for `vllm serve`. Raises BadInputError."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--max-num-seqs", type=_count, dest="seats")
    parser.add_argument("--max-num-batched-tokens", type=_count, dest="tokens")
    parser.add_argument("--block-size", type=_count, dest="block")
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--enable-prefix-caching", action=switch, default=True, dest="caching")
    parser.add_argument("--async-scheduling", action=switch, default=False, dest="use_async")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInputError(f"--engine-args {text}: {error}; close the quotation") from error
    found = Engine(**vars(parser.parse_args(words)))
    if found.seats and found.tokens and found.tokens < found.seats:
        raise BadInputError(
            f"--engine-args: --max-num-batched-tokens {found.tokens} is less than "
            f"--max-num-seqs {found.seats}; every running request needs a token of the step"
        )
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
