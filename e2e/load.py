"""A running `e2e.saturate`, and what its clients have counted so far."""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from e2e import paths

if TYPE_CHECKING:
    import subprocess


@dataclass(frozen=True)
class Report:
    """Output tokens by tenant, at `t` seconds of the load's own clock."""

    t: float
    tokens: Mapping[str, int]


def command(url: str, tenants: str, *options: str) -> list[str]:
    """The program; `tenants` as on its command line."""
    python = str(paths.venv() / "bin" / "python")
    return [python, "-m", "e2e.saturate", "--url", url, "--tenants", tenants, *options]


class Load:
    """A process of `command` whose standard output is a pipe of text."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._reports: list[Report] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._reports.append(Report(**json.loads(line)))

    def next(self) -> Report:
        """The first report from now on."""
        return self.until(self._reports[-1].t + 0.5 if self._reports else 0.0)

    def until(self, seconds: float) -> Report:
        """The first report at or after `seconds` of the load's own clock."""
        while not self._reports or self._reports[-1].t < seconds:
            assert self._process.poll() is None, f"the load ended before {seconds} s"
            time.sleep(0.1)
        return next(report for report in self._reports if report.t >= seconds)

    def stop(self) -> None:
        """Cut off whatever is under way."""
        with self._process:
            self._process.kill()
