"""Who runs what: sums over the running requests, by tenant.

The sums move with what happens to the list: a step gives each decode a token, a prompt is through,
a request ends. Whatever else happens (a preemption, an abort, drafts) makes the next step read the
whole list, and so does every RECOUNT-th: an error, whatever its cause, does not last.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

RECOUNT: Final = 64


class Census:
    """The running list, counted. `owner` names the tenant of a request."""

    def __init__(self, owner: Callable[[Any], str]) -> None:
        self.seats: dict[str, int] = {}
        """Requests that run, by tenant."""
        self.decodes: dict[str, int] = {}
        """Those of them that decode."""
        self.context: dict[str, int] = {}
        """Tokens that those have computed."""
        self.prompts: list[Any] = []
        """The others, in the order of the list."""
        self.version = 0
        """Changes whenever a tenant begins or ceases to run something."""
        self.moves = 0
        """Changes whenever the seats of a tenant do."""
        self.total = 0
        """Context of all decodes."""
        self.base = 0
        """The length of the list."""
        self._owner = owner
        self._valid = False
        self._steps = 0

    @property
    def sure(self) -> bool:
        """Whether the sums are those of the list; else the next step counts anew."""
        return self._valid

    @property
    def decoding(self) -> int:
        """Requests that decode, of all tenants."""
        return self.base - len(self.prompts)

    def behind(self, running: Sequence[Any]) -> bool:
        """Whether the prompts stand behind all decodes."""
        count = len(self.prompts)
        return not count or running[-count] is self.prompts[0]

    def held(self) -> dict[str, int]:
        """Tokens in the KV cache, by tenant."""
        held = dict(self.context)
        for prompt in self.prompts:
            tenant = self._owner(prompt)
            held[tenant] = held.get(tenant, 0) + int(prompt.num_computed_tokens)
        return held

    def take(self, running: Sequence[Any]) -> None:
        """A step begins with this list."""
        self._steps += 1
        if not self._valid or len(running) != self.base or not self._steps % RECOUNT:
            self._count(running)

    def doubt(self) -> None:
        """Something has happened that the sums do not know."""
        self._valid = False

    def advance(self) -> None:
        """A step was scheduled in which each decode got one token."""
        context = self.context
        for tenant, count in self.decodes.items():
            context[tenant] += count
        self.total += self.decoding

    def join(self, new: Iterable[Any], base: int) -> None:
        """In that step `new` requests began, and prompts may be through."""
        for request in new:
            self._seat(self._owner(request), 1)
            self.prompts.append(request)
        if self.prompts:
            through = [each for each in self.prompts if not each.is_prefill_chunk]
            self.prompts = [each for each in self.prompts if each.is_prefill_chunk]
            for request in through:
                self._decode(self._owner(request), 1, request.num_computed_tokens)
        self.base = base

    def passed_over(self, request: Any) -> None:
        """A decode got no token in the step after all."""
        self.context[self._owner(request)] -= 1
        self.total -= 1

    def ended(self, request: Any) -> None:
        """A request that decoded is through."""
        tenant = self._owner(request)
        if tenant not in self.decodes:
            self.doubt()
            return
        self._decode(tenant, -1, -int(request.num_computed_tokens))
        self._seat(tenant, -1)
        self.base -= 1

    def _count(self, running: Sequence[Any]) -> None:
        before = self.seats.keys()
        self.seats, self.decodes, self.context, self.prompts = {}, {}, {}, []
        seats, decodes, context, owner = self.seats, self.decodes, self.context, self._owner
        for request in running:
            tenant = owner(request)
            seats[tenant] = seats.get(tenant, 0) + 1
            if request.is_prefill_chunk:
                self.prompts.append(request)
            else:
                decodes[tenant] = decodes.get(tenant, 0) + 1
                context[tenant] = context.get(tenant, 0) + request.num_computed_tokens
        self.base = len(running)
        self.total = sum(context.values())
        self.moves += 1
        self._valid = True
        if before != seats.keys():
            self.version += 1

    def _seat(self, tenant: str, change: int) -> None:
        self.moves += 1
        count = self.seats.get(tenant, 0)
        self.seats[tenant] = count + change
        if count + change < 1:
            del self.seats[tenant]
            self.version += 1
        elif not count:
            self.version += 1

    def _decode(self, tenant: str, change: int, context: int) -> None:
        count = self.decodes.get(tenant, 0) + change
        if count:
            self.total += context
            self.decodes[tenant] = count
            self.context[tenant] = self.context.get(tenant, 0) + context
        else:
            self.total -= self.context.pop(tenant)
            del self.decodes[tenant]
