"""The operator's settings, from environment variables."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

DEFAULT_ENGINE_IMAGE = "ghcr.io/tenantry/engine:0.1.0"


class SettingsError(ValueError):
    """A setting cannot be used: the message names the variable, the value and the way out."""


@dataclass(frozen=True)
class Settings:
    """What an administrator decides for all policies. Times in seconds."""

    engine_image: str = DEFAULT_ENGINE_IMAGE
    namespace: str = "tenantry-system"
    identity: str = "tenantry-operator"
    port: int = 8080
    workers: int = 4
    scrape_seconds: float = 5.0
    resync_seconds: float = 300.0
    drain_seconds: int = 5
    log_level: str = "INFO"


def load(environ: Mapping[str, str], hostname: Callable[[], str] = socket.gethostname) -> Settings:
    """The settings that `environ` asks for. Raises `SettingsError` at the first one that is wrong.

    `TENANTRY_POD_NAME` and `TENANTRY_NAMESPACE` come from the downward API: they name the holder of
    the Lease and where it lies.
    """
    read = _Reader(environ)
    return Settings(
        engine_image=read.text("TENANTRY_ENGINE_IMAGE", Settings.engine_image),
        namespace=read.text("TENANTRY_NAMESPACE", Settings.namespace),
        identity=read.text("TENANTRY_POD_NAME", hostname()),
        port=int(read.number("TENANTRY_PORT", Settings.port, 1, 65535)),
        workers=int(read.number("TENANTRY_WORKERS", Settings.workers, 1, 64)),
        scrape_seconds=read.number("TENANTRY_SCRAPE_SECONDS", Settings.scrape_seconds, 1, 30),
        resync_seconds=read.number("TENANTRY_RESYNC_SECONDS", Settings.resync_seconds, 10, 86400),
        drain_seconds=int(read.number("TENANTRY_DRAIN_SECONDS", Settings.drain_seconds, 0, 300)),
        log_level=read.choice("TENANTRY_LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR"), "INFO"),
    )


@dataclass(frozen=True)
class _Reader:
    environ: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.environ.get(name, "").strip() or default

    def number(self, name: str, default: float, low: float, high: float) -> float:
        given = self.text(name, str(default))
        try:
            value = float(given)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise SettingsError(f"{name} is {given!r}: give a number from {low:g} to {high:g}")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        given = self.text(name, default)
        if given.upper() not in allowed:
            raise SettingsError(f"{name} is {given!r}: give one of {', '.join(allowed)}")
        return given.upper()
