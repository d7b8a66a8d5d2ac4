"""What an image name means on this machine: the image map.

A map is a YAML list of entries; the last entry whose pattern matches wins. All that an entry
changes for a process is the honest difference between here and a real cluster, so it stands in
one file, and a test compares every process with its manifest and that file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """One entry. entrypoint, arguments, env, user, directory: as an image's own configuration.

    path: folders in front of PATH. replace, drop, append: what becomes of single arguments, in
    this order. binds: path of the machine -> path of the container, read-only.
    """

    image: str
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    replace: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    binds: Mapping[str, str] = field(default_factory=dict)
    user: int = 0
    directory: str = "/"

    def argv(self, command: Sequence[str], arguments: Sequence[str]) -> list[str]:
        """The command line for a container's `command` and `args`, both expanded.

        As for any image: a command takes the place of entrypoint and arguments, args that of
        the arguments.
        """
        if command:
            words = [*command, *arguments]
        else:
            words = [*self.entrypoint, *(arguments or self.arguments)]
        kept = [self.replace.get(word, word) for word in words if word not in self.drop]
        return [*kept, *self.append]

    def environment(self) -> dict[str, str]:
        """What the image brings; the manifest's own variables win over it."""
        return {"PATH": ":".join([*self.path, DEFAULT_PATH])} | dict(self.env)


def parse(text: str, places: Mapping[str, str]) -> list[Image]:
    """An image map with its placeholders ({venv}, {bin}, ...) filled in.

    Raises ValueError naming the entry and the field where the map is none.
    """
    found = []
    known = {each.name for each in fields(Image)}
    for number, entry in enumerate(yaml.safe_load(text) or []):
        if not isinstance(entry, dict) or "image" not in entry:
            raise ValueError(f"image map, entry {number}: needs the field `image`")
        for name in entry:
            if name not in known:
                raise ValueError(f"image map, entry {number}: unknown field {name!r}")
        values = {name: _filled(value, places) for name, value in entry.items()}
        found.append(Image(**values))
    return found


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    """Lists become tuples, scalars of maps and lists become text."""
    if isinstance(value, dict):
        return {_text(key, places): _text(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_text(item, places) for item in value)
    return value if isinstance(value, int) else _text(value, places)


def _text(value: object, places: Mapping[str, str]) -> str:
    text = str(value)
    for name, place in places.items():
        text = text.replace("{" + name + "}", place)
    return text


def load(paths: Iterable[Path], places: Mapping[str, str]) -> list[Image]:
    """All entries of several maps; those of later files count more."""
    return [image for path in paths for image in parse(path.read_text("utf-8"), places)]


def find(images: Sequence[Image], name: str) -> Image | None:
    """The last entry whose pattern matches `name`."""
    for image in reversed(images):
        if fnmatchcase(name, image.image):
            return image
    return None
