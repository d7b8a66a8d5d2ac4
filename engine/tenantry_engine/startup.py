"""What is looked at once, before vLLM loads a model: bad input ends it here, in one sentence.

Runs in the first process only. Each process of vLLM reads its configuration by itself later.
"""

import errno
import logging
import socket
import sys
from collections.abc import Mapping
from typing import Final, NoReturn

from tenantry_api import names
from tenantry_engine import config as configuration
from tenantry_engine import refusals, reload, tagging
from tenantry_engine.config import LOGGER_NAME, ConfigError, EngineConfig

BAD_INPUT: Final = 2
ENVIRONMENT: Final = 3
RUST_FRONTEND: Final = "VLLM_USE_RUST_FRONTEND"
_UNUSED: Final = (
    "vLLM's own scheduler decides, so weights have no effect: add "
    f"--scheduler-cls {names.SCHEDULER_CLASS} --middleware {names.MIDDLEWARE}, "
    "or start it with `tenantry serve`"
)
_LOGGER: Final = logging.getLogger(LOGGER_NAME)


class PortTakenError(ConfigError):
    """The port of the engine's metrics is not free."""


def check(environ: Mapping[str, str], command: str, stops: bool) -> EngineConfig:
    """Read the configuration and say once what the user should know of it.

    `command` is the command line; with `stops` the process ends with exit status 2 or 3 and one
    sentence, without it ConfigError is raised.
    """
    try:
        found = configuration.load(environ, reload.read)
        _front_end(environ)
        if names.SCHEDULER_CLASS in command:
            _allowed(command)
            _port_is_free(configuration.metrics_port(environ))
    except ConfigError as error:
        if not stops:
            raise
        _end(error)
    for notice in (*found.notices, *_unused(command, stops)):
        _LOGGER.warning(notice)
    return found


def install() -> None:
    """See to it that no client of this process names its own tenant."""
    try:
        tagging.install(door=False)
    except ConfigError as error:
        _LOGGER.warning(str(error))


def _allowed(command: str) -> None:
    for sentence in refusals.written(command):
        raise ConfigError(sentence)


def _front_end(environ: Mapping[str, str]) -> None:
    if environ.get(RUST_FRONTEND, "0").strip().lower() in ("1", "true"):
        raise ConfigError(
            f"{RUST_FRONTEND} is set, and vLLM's Rust front end runs no middleware: nobody could "
            "say whose a request is. Unset it, or run without Tenantry"
        )


def _unused(command: str, serving: bool) -> tuple[str, ...]:
    if not serving or names.SCHEDULER_CLASS in command:
        return ()
    return (_UNUSED,)


def _port_is_free(port: int) -> None:
    if not port:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - where the metrics will be served
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"fails: {error.strerror}"
            raise PortTakenError(
                f"port {port}, for the metrics of the engine process, {why}: "
                f"set {names.ENV_METRICS_PORT} to a free one, or to 0 for none"
            ) from error


def _end(error: ConfigError) -> NoReturn:
    print(f"tenantry: {error}", file=sys.stderr)  # noqa: T201 - the last word of this process
    raise SystemExit(ENVIRONMENT if isinstance(error, PortTakenError) else BAD_INPUT) from error
