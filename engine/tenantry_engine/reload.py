"""How a changed policy file reaches a running process: all of it or nothing.

A ConfigMap volume swaps a symbolic link, an editor replaces or rewrites the file: inode, time and
size of the file behind the path tell all of them. Asking costs one `stat` a second.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tenantry_api import names
from tenantry_engine import config as configuration
from tenantry_engine.config import ConfigError, EngineConfig

Stamp: TypeAlias = tuple[int, int, int]

INTERVAL: Final = 1.0


class PolicyWatch:
    """Asks at most once a second whether the policy reads differently.

    `load` reads it anew, `stamp` tells one version of the file from another (None: no file), `say`
    takes a sentence for the log. The instance keeps the configuration in force in `config`.
    """

    def __init__(
        self,
        config: EngineConfig,
        load: Callable[[], EngineConfig],
        stamp: Callable[[], Stamp | None],
        say: Callable[[str], None],
    ) -> None:
        self.config = config
        self._load = load
        self._stamp = stamp
        self._say = say
        self._next = float("-inf")
        # Not the stamp of now: the file may have changed since `config` was read from it.
        self._seen: Stamp | None = (-1, -1, -1)

    def poll(self, now: float) -> EngineConfig | None:
        """The new configuration, or None where nothing changed; `now` is monotonic, seconds."""
        if now < self._next:
            return None
        self._next = now + INTERVAL
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
        return self._read()

    def _read(self) -> EngineConfig | None:
        try:
            fresh = self._load()
        except ConfigError as error:
            self._say(f"policy {self.config.policy} ({self.config.hash}) stays in force: {error}")
            return None
        if fresh == self.config:
            return None
        self._say(f"policy {fresh.policy} ({fresh.hash}) is in force, before it {self.config.hash}")
        self.config = fresh
        return fresh


def read(path: str) -> str:
    """The text of a policy file."""
    return Path(path).read_text(encoding="utf-8")


def stamp(path: str) -> Stamp | None:
    """What changes whenever the file behind the path does; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called every second beside the engine's steps
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def watch(
    environ: Mapping[str, str], config: EngineConfig, say: Callable[[str], None]
) -> PolicyWatch:
    """The watch of this process's policy file; without a file it never finds a change."""
    kept = dict(environ)
    path = kept.get(names.ENV_POLICY)
    return PolicyWatch(
        config,
        load=lambda: configuration.load(kept, read),
        stamp=(lambda: stamp(path)) if path else (lambda: None),
        say=say,
    )
