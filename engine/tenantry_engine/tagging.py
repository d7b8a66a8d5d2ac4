"""Puts the tenant on each request on its way from the API server to the engine.

vLLM's front end registers every request, of every endpoint and each of the `n` samples of one, with
`OutputProcessor.add_request` before it sends it to the engine, in the context of the HTTP request
that it belongs to. There the door's answer is written over whatever the client wrote itself: no
client chooses its tenant, its priority or its place in the prefix cache. Without a door in the
process the client's word is taken away.
"""

import functools
import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from tenantry_api import names
from tenantry_api.choices import Isolation, Mode
from tenantry_engine.config import LOGGER_NAME, ConfigError, EngineConfig

_LOGGER: Final = logging.getLogger(LOGGER_NAME)
_MARK: Final = "__tenantry__"
_WITHOUT_DOOR: Final = (
    f"a request names its own tenant and is not believed: without --middleware {names.MIDDLEWARE} "
    f"everybody is tenant `{names.DEFAULT_TENANT}`"
)


@dataclass(slots=True)
class Caller:
    """Who a request belongs to, as the door found out. `waits` collects vLLM's times of it."""

    tenant: str
    namespace: str | None = None
    enforce: bool = True
    waits: list[Any] = field(default_factory=list)


CALLER: Final[ContextVar[Caller | None]] = ContextVar("tenantry_caller", default=None)


def namespace(tenant: str, config: EngineConfig) -> str | None:
    """The part of the prefix cache that a tenant may hit; None: the one that all share.

    No two tenants or groups have the same, whatever their names: `|` ends it.
    """
    if config.isolation is Isolation.SHARED:
        return None
    group = config.groups.get(tenant) if config.isolation is Isolation.GROUP else None
    kind, name = ("tenant", tenant) if group is None else ("group", group)
    return f"{kind}/{name.replace('%', '%25').replace('|', '%7C')}"


def salt(own: str | None, client: str | None) -> str | None:
    """vLLM's cache salt: the namespace, narrowed further where the client asks for it.

    A client can keep its prefixes to itself; it cannot reach those of another namespace.
    """
    if not client:
        return own
    return f"{own or 'shared'}|{client}"


def tag(request: Any, caller: Caller) -> None:
    """Write the door's answer into an EngineCoreRequest."""
    _name_tenant(request, caller.tenant)
    if caller.enforce:
        request.cache_salt = salt(caller.namespace, request.cache_salt)
        request.priority = 0


def untag(request: Any) -> bool:
    """Take the tenant away that a client named itself; whether there was one."""
    params = request.sampling_params
    extra = getattr(params, "extra_args", None)
    if not extra or names.EXTRA_ARG not in extra:
        return False
    params.extra_args = {key: value for key, value in extra.items() if key != names.EXTRA_ARG}
    return True


def caller(tenant: str, config: EngineConfig) -> Caller:
    """What the door knows of a tenant's request. In mode Observe the cache is left as it is."""
    enforce = config.mode is Mode.ENFORCE
    return Caller(tenant, namespace(tenant, config) if enforce else None, enforce)


def install(door: bool) -> None:
    """Wrap the hand-over of this process once; `door` says that a door identifies its requests.

    Raises ConfigError where this vLLM has no such hand-over.
    """
    from vllm.v1.engine.output_processor import (  # noqa: PLC0415 - only where it is asked for
        OutputProcessor,
    )

    original = getattr(OutputProcessor, "add_request", None)
    if original is None:
        raise ConfigError(
            "this vLLM has no OutputProcessor.add_request, so requests cannot carry their tenant: "
            "use a version that the documentation names"
        )
    tagger = getattr(original, _MARK, None)
    if tagger is None:
        tagger = Tagger()
        OutputProcessor.add_request = tagger.wrap(original)
    tagger.door = tagger.door or door


class Tagger:
    """Decides for each request of this process whose it is."""

    def __init__(self) -> None:
        self.door = False
        self._warned = False

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The hand-over with the tenant put on; everything else as vLLM has it."""

        @functools.wraps(original)
        def add_request(processor: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            known = self.decide(request)
            answer = original(processor, request, *args, **kwargs)
            if known is not None:
                _collect(processor, request, known)
            return answer

        setattr(add_request, _MARK, self)
        return add_request

    def decide(self, request: Any) -> Caller | None:
        """Tag one request; the caller that its times are counted for."""
        known = CALLER.get()
        if known is not None:
            tag(request, known)
        elif self.door:
            # Not from HTTP, or from a task outside the request's context: nobody vouches for it.
            _name_tenant(request, names.DEFAULT_TENANT)
        elif _serves_http() and untag(request) and not self._warned:
            self._warned = True
            _LOGGER.warning(_WITHOUT_DOOR)
        return known


def _name_tenant(request: Any, tenant: str) -> None:
    params = request.sampling_params
    if params is not None:
        params.extra_args = {**(params.extra_args or {}), names.EXTRA_ARG: tenant}
    elif request.pooling_params is not None:
        pooling = request.pooling_params
        pooling.extra_kwargs = {**(pooling.extra_kwargs or {}), names.EXTRA_ARG: tenant}


def _collect(processor: Any, request: Any, known: Caller) -> None:
    states = getattr(processor, "request_states", {})
    times = getattr(states.get(request.request_id), "stats", None)
    if times is not None:
        known.waits.append(times)


def _serves_http() -> bool:
    # A program of its own around the engine may name tenants; a client over HTTP may not.
    return "uvicorn" in sys.modules
