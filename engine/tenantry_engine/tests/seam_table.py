"""What of vLLM's our sources touch, found by reading them.

`python -m tenantry_engine.tests.seam_table` writes the table into the reference.
"""

import ast
import builtins
import collections
import functools
import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tenantry_api
import tenantry_core
import tenantry_engine
from e2e import paths
from tenantry_engine import seams
from tenantry_engine.seams import Seam

FOLDERS: Final = tuple(
    Path(str(package.__file__)).parent for package in (tenantry_core, tenantry_api, tenantry_engine)
)
NOT_SERVING: Final = frozenset({"seams.py", "offline.py"})
"""The table itself, and what builds schedulers for simulators and tests only."""
RECEIVERS: Final = frozenset({"request", "scheduler", "_scheduler", "vllm_config"})
"""A variable or attribute with one of these names holds an object of vLLM's."""
STANDARD: Final = (
    *("asyncio", "bisect", "contextlib", "errno", "functools", "heapq", "importlib", "inspect"),
    *("ipaddress", "itertools", "json", "logging", "math", "multiprocessing", "os", "pathlib"),
    *("prometheus_client", "prometheus_client.core", "re", "socket", "socketserver", "sys"),
    *("threading", "time"),
)
PYTHON: Final = tuple(importlib.import_module(name) for name in STANDARD)
BUILT_IN: Final = (
    *(dict, list, str, bytes, int, float, tuple, set, frozenset, property, types.CodeType),
    *(types.FunctionType, collections.Counter, collections.deque, collections.defaultdict),
    *(Path, OSError),
)


def touched() -> Iterator[tuple[str, str]]:
    """Each name of vLLM's in the sources, and the file that it is in."""
    for file in sorted(FOLDERS[-1].glob("*.py")):
        if file.name not in NOT_SERVING:
            for name in foreign(file.read_text(), file.name):
                yield name, file.name


def mentioned() -> Iterator[str]:
    """Each name that the sources touch, whosever it is, and each class of vLLM's they import."""
    for file in FOLDERS[-1].glob("*.py"):
        if file.name not in NOT_SERVING:
            yield from foreign(file.read_text(), file.name)
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute):
                    yield node.attr


def foreign(source: str, name: str) -> Iterator[str]:
    """Attributes in a source that are neither ours nor Python's, and classes of vLLM's that it
    imports. What is asked of a RECEIVER is vLLM's unless our scheduler has it.
    """
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "_moment"):
            argument = node.args[1]
            if isinstance(argument, ast.Constant) and _is_foreign(str(argument.value)):
                yield str(argument.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm."):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _attribute(node: ast.Attribute) -> Iterator[str]:
    receiver = ast.unparse(node.value).rpartition(".")[2]
    if (receiver in RECEIVERS and node.attr not in ours_of_a_scheduler()) or _is_foreign(node.attr):
        yield node.attr


def _is_foreign(name: str) -> bool:
    return not name.startswith("__") and name not in ours() and name not in pythons()


@functools.cache
def ours() -> frozenset[str]:
    """Every name that our own sources define."""
    return frozenset(
        name
        for folder in FOLDERS
        for file in folder.glob("*.py")
        for name in _defined(ast.parse(file.read_text()))
    )


@functools.cache
def ours_of_a_scheduler() -> frozenset[str]:
    """What `FairScheduler` adds to vLLM's."""
    tree = ast.parse((FOLDERS[-1] / "fair.py").read_text())
    return frozenset(_defined(tree)) - frozenset(overridden()) - {s.name for s in seams.SEAMS}


@functools.cache
def overridden() -> tuple[str, ...]:
    """What our subclasses of vLLM's classes replace."""
    trees = [ast.parse((FOLDERS[-1] / name).read_text()) for name in ("fair.py", "waiting.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    functions = [node for cls in classes for node in cls.body if isinstance(node, ast.FunctionDef)]
    names = {seam.name for seam in seams.SEAMS}
    return tuple(node.name for node in functions if node.name in names)


@functools.cache
def pythons() -> frozenset[str]:
    """Every name of the standard library's, and of the metrics', that an attribute may have."""
    owners = (*PYTHON, *BUILT_IN)
    members = [getattr(owner, name) for owner in PYTHON for name in dir(owner)]
    classes = [member for member in members if isinstance(member, type)]
    found = (name for owner in (*owners, *classes, builtins) for name in dir(owner))
    return frozenset(found) | {"server_port"}  # which an HTTPServer has once it listens


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (part for each in targets for part in ast.walk(each)):
                if isinstance(target, ast.Name):
                    yield target.id
                elif isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    yield target.attr


def take_away(seam: Seam, patch: Any) -> None:
    """Let the owner of a seam be one without that name."""
    module, _, name = seam.owner.rpartition(".")
    place = importlib.import_module(module)
    patch.setattr(place, name, without(getattr(place, name), seam.name))


def without(owner: type, name: str) -> type:
    """A class with all that `owner` has but this name; nobody can use it for more than to look."""
    members = {each: getattr(owner, each, None) for each in dir(owner) if each != name}
    start = members.pop("__init__", None)
    annotations = {
        key: value
        for cls in reversed(owner.__mro__)
        for key, value in getattr(cls, "__annotations__", {}).items()
        if key != name
    }
    dropped = ("__dict__", "__weakref__", "__slots__", "__class__", "__new__")
    kept = {each: value for each, value in members.items() if each not in dropped}
    made = types.new_class(owner.__name__)
    for each, value in kept.items():
        if not each.startswith("__"):
            setattr(made, each, value)
    made.__annotations__ = annotations
    if name == "__init__":
        made.__init__ = None  # type: ignore[misc]
    elif isinstance(start, types.FunctionType):
        code = start.__code__
        names = tuple(f"_{each}" if each == name else each for each in code.co_names)
        renamed = code.replace(co_names=names)
        made.__init__ = types.FunctionType(  # type: ignore[misc]
            renamed, {}, closure=start.__closure__
        )
    return made


def page() -> Path:
    """The reference that shows the table."""
    return paths.checkout() / "docs" / "reference" / "engine.md"


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    lines = text.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("| of | names |"))
    end = next(at for at, line in enumerate(lines) if at > head and not line.startswith("|"))
    return "\n".join([*lines[:head], *seams.rows(), *lines[end:], ""])


if __name__ == "__main__":
    page().write_text(with_table(page().read_text()))
