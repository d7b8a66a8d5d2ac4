"""Who runs what: sums over the running requests, by tenant.

The sums move with what happens to the list: a step gives each decode a token, a prompt is through,
a request ends. Whatever else happens (a preemption, an abort, drafts) makes the next step read the
whole list, and so does every RECOUNT-th: an error, whatever its cause, does not last.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

RECOUNT: Final = 256


class Census:
    """The running list, counted. `owner` names the tenant of a request."""

    def __init__(self, owner: Callable[[Any], str]) -> None:
        self.seats: dict[str, int] = {}
        """Requests that run, by tenant."""
        self.decodes: dict[str, int] = {}
        """Those of them that decode."""
        self.prompts: list[Any] = []
        """The others, in the order of the list."""
        self.moved: set[str] = set()
        """Tenants whose seats or decodes have changed; whoever reads them takes them out."""
        self.total = 0
        """Context of all decodes."""
        self.base = 0
        """The length of the list."""
        self.origins: dict[str, int] = {}
        """Tokens that those have computed, less `steps` for each of them: so a step moves none."""
        self.steps = 0
        """Steps that were scheduled since everything was counted."""
        self._owner = owner
        self._valid = False
        self._taken = 0

    @property
    def context(self) -> dict[str, int]:
        """Tokens that decodes have computed, by tenant."""
        return {t: o + self.steps * self.decodes[t] for t, o in self.origins.items()}

    def context_of(self, tenant: str) -> int:
        """The same of one tenant."""
        return self.origins.get(tenant, 0) + self.steps * self.decodes.get(tenant, 0)

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
        held = self.context
        for prompt in self.prompts:
            tenant = self._owner(prompt)
            held[tenant] = held.get(tenant, 0) + int(prompt.num_computed_tokens)
        return held

    def take(self, running: Sequence[Any]) -> None:
        """A step begins with this list."""
        self._taken += 1
        if not self._valid or len(running) != self.base or not self._taken % RECOUNT:
            self._count(running)

    def doubt(self) -> None:
        """Something has happened that the sums do not know."""
        self._valid = False

    def advance(self) -> None:
        """A step was scheduled in which each decode got one token."""
        self.steps += 1
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
        self.origins[self._owner(request)] -= 1
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
        self.moved.update(self.seats)
        self.seats, self.decodes, self.origins, self.prompts = {}, {}, {}, []
        seats, decodes, owner = self.seats, self.decodes, self._owner
        context: dict[str, int] = {}
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
        self.origins, self.steps = context, 0
        self.moved.update(seats)
        self._valid = True

    def _seat(self, tenant: str, change: int) -> None:
        self.moved.add(tenant)
        count = self.seats.get(tenant, 0) + change
        if count:
            self.seats[tenant] = count
        else:
            del self.seats[tenant]

    def _decode(self, tenant: str, change: int, context: int) -> None:
        self.moved.add(tenant)
        count = self.decodes.get(tenant, 0) + change
        self.total += context
        if count:
            self.decodes[tenant] = count
            self.origins[tenant] = self.origins.get(tenant, 0) + context - change * self.steps
        else:
            del self.decodes[tenant], self.origins[tenant]
