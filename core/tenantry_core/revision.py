"""What payers owe each other because prices have changed since they paid.

Who pays how much of a step is linear in the prices of a decode, of a token of context and of a unit
of attention: each payer pays its own, and the rest of the step by its tokens. So two sums a payer
are enough to say what it would have paid by the prices of today, however many steps it was in:
what it had of each beyond its part of the tokens, and what it paid for that. Prices are learned
from noisy steps and are wrong by a tenth for a minute; a mistake that is made in every step to the
same side is then taken back as soon as it is known.
"""

from collections.abc import Hashable, Iterable
from math import exp
from typing import Final, Generic, TypeVar

from tenantry_core.stepmodel import Load, Prices

MEMORY: Final = 60.0
"""Seconds after which a step counts 1/e: what a weight buys is promised over a minute."""
LEAST: Final = 1e-9
"""Payers whose sums have faded to this part of a unit are forgotten."""

Payer = TypeVar("Payer", bound=Hashable)
Row = tuple[Payer, int, int, int, float]
"""Who, and what of a step is theirs: tokens, decodes, context and work."""


class _Account:
    """One payer's excess of decodes, context and work over its part of the tokens, and what it paid
    for that; in the order of `Prices`."""

    __slots__ = ("context", "decodes", "paid", "work")

    def __init__(self) -> None:
        self.decodes = self.context = self.work = self.paid = 0.0


class Revision(Generic[Payer]):
    """The accounts of all payers."""

    def __init__(self, memory: float = MEMORY) -> None:
        self._memory = memory
        self._accounts: dict[Payer, _Account] = {}
        self._since: float | None = None

    def paid(self, step: Load, rows: Iterable[Row[Payer]], prices: Prices) -> None:
        """A step was paid for by these prices; the rows of all payers add up to the step."""
        if not step.tokens:
            return
        decode, context, work = prices
        all_decodes, all_context, all_work = (
            each / step.tokens for each in (step.decodes, step.context, step.work)
        )
        for payer, own_tokens, own_decodes, own_context, own_work in rows:
            account = self._accounts.get(payer)
            if account is None:
                account = self._accounts[payer] = _Account()
            more_decodes = own_decodes - own_tokens * all_decodes
            more_context = own_context - own_tokens * all_context
            more_work = own_work - own_tokens * all_work
            account.decodes += more_decodes
            account.context += more_context
            account.work += more_work
            account.paid += decode * more_decodes + context * more_context + work * more_work

    def settle(self, prices: Prices, now: float) -> dict[Payer, float]:
        """What each payer still owes (negative: gets back) by these prices, in seconds; then they
        are even. The debts add up to zero as far as nobody has faded."""
        kept = 1.0 if self._since is None else exp(-max(now - self._since, 0.0) / self._memory)
        self._since = now
        owed = {}
        for payer, account in list(self._accounts.items()):
            due = prices.of(account.decodes, account.context, account.work)
            owed[payer] = due - account.paid
            account.decodes *= kept
            account.context *= kept
            account.work *= kept
            account.paid = due * kept
            if abs(account.decodes) + abs(account.context) + abs(account.work) < LEAST:
                del self._accounts[payer]
        return owed
