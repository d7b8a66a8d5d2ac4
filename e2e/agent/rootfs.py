"""The file system that a container sees, built from the machine's own.

A tmpfs is the new root. Each top-level directory of the machine comes in as an overlay whose
lower layer is that directory and whose upper layer lies on the tmpfs, so a container may write
anywhere (unless its root is read-only) and nothing reaches the machine. One overlay over `/`
would be refused without root. Then come own /proc, /dev, /tmp and /run, masks over what no pod
may see, and the pod's volumes. Standard library only, as for `syscalls`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from e2e.agent import syscalls as sys_

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Made anew for each container, or of no use in one.
OWN = frozenset({"proc", "sys", "dev", "tmp", "run", "lost+found"})
# How far down a directory with other mounts in it is rebuilt entry by entry.
DEEPEST = 4
LARGEST_COPY = 2**20
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_KEPT_FLAGS = {
    os.ST_NOSUID: sys_.MS_NOSUID,
    os.ST_NODEV: sys_.MS_NODEV,
    os.ST_NOEXEC: sys_.MS_NOEXEC,
    os.ST_NOATIME: sys_.MS_NOATIME,
    os.ST_NODIRATIME: sys_.MS_NODIRATIME,
    os.ST_RELATIME: sys_.MS_RELATIME,
}


class Bind(NamedTuple):
    """One file or directory of the machine at a path of the container."""

    source: str
    target: str
    readonly: bool


class Plan(NamedTuple):
    """What a container's tree is made of.

    base: an empty directory of the machine to build in. binds: volumes and single files.
    masks: paths that are empty for the container. needed: paths of the machine that the
    container must find at the same place, even where /tmp or another mount hides them.
    """

    base: str
    binds: Sequence[Bind]
    masks: Sequence[str]
    needed: Sequence[str]
    readonly: bool


def resolve(root: str, path: str, depth: int = 0) -> str:
    """Where `path` of the container lies on the machine, symlinks followed inside `root` only."""
    if depth > 40:
        raise OSError(f"too many symlinks in {path}")
    current = root
    parts = [part for part in path.split("/") if part and part != "."]
    for index, part in enumerate(parts):
        if part == "..":
            current = root if current == root else os.path.dirname(current)
            continue
        step = os.path.join(current, part)
        if not os.path.islink(step):
            current = step
            continue
        link = os.readlink(step)
        above = "" if link.startswith("/") else current[len(root) :]
        rest = "/".join([above, link, *parts[index + 1 :]])
        return resolve(root, rest, depth + 1)
    return current


def build(plan: Plan) -> str:
    """Mount everything; the new root's path. Call it in a mount namespace of its own."""
    sys_.mount("none", "/", flags=sys_.MS_REC | sys_.MS_PRIVATE)
    sys_.mount("tmpfs", plan.base, "tmpfs", data="mode=0755")
    root = os.path.join(plan.base, "root")
    os.mkdir(root)
    sys_.mount("tmpfs", root, "tmpfs", data="mode=0755")
    layers = [
        layer
        for name in sorted(os.listdir("/"))
        if name not in OWN
        for layer in _bring_in(plan.base, root, "/" + name, frozenset(plan.masks))
    ]
    _own_directories(root)
    _needed(root, plan.needed)
    for path in plan.masks:
        _mask(root, path)
    _volumes(root, plan, layers)
    _uncover(root, plan)
    return root


def enter(root: str) -> None:
    """Make `root` the root of this mount namespace and forget the old one."""
    os.chdir(root)
    sys_.pivot_root(".", ".")
    sys_.unmount(".", sys_.MNT_DETACH)
    os.chdir("/")


def _bring_in(base: str, root: str, path: str, masks: frozenset[str]) -> list[str]:
    """Show one entry of the machine below `root`; the mounts made for it.

    The kernel refuses an overlay over a directory that has other mounts in it (a Docker
    container's /etc, a /home on a disk of its own). Such a directory is rebuilt entry by entry.
    """
    there = root + path
    if os.path.islink(path):
        os.symlink(os.readlink(path), there)
        return []
    if not os.path.isdir(path):
        _copy_file(path, there)
        return []
    os.mkdir(there, 0o755)
    if path in masks:
        return []
    if _overlay(base, path, there):
        return [there]
    try:
        names = sorted(os.listdir(path)) if path.count("/") <= DEEPEST else None
    except OSError:
        return []
    if names is None:
        sys_.mount(path, there, flags=sys_.MS_BIND | sys_.MS_REC)
        make_readonly(there)
        return [there]
    below = [_bring_in(base, root, os.path.join(path, name), masks) for name in names]
    return [mount for mounts in below for mount in mounts]


def _overlay(base: str, path: str, there: str) -> bool:
    """Whether `path` could be made the lower layer of an overlay on `there`."""
    upper, work = (base + kind + path for kind in ("/upper", "/work"))
    os.makedirs(upper)
    os.makedirs(work)
    data = f"lowerdir={_escaped(path)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    try:
        sys_.mount("overlay", there, "overlay", data=data + ",userxattr")
    except OSError:
        return False
    return True


def _copy_file(path: str, there: str) -> None:
    """Copy a small regular file; what cannot be read, or is no file, stays away."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_COPY:
            return
        with open(path, "rb") as source, open(there, "wb") as target:
            target.write(source.read())
        os.chmod(there, stat.S_IMODE(found.st_mode))


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _own_directories(root: str) -> None:
    for name in ("proc", "sys", "dev", "tmp", "run"):
        os.mkdir(os.path.join(root, name))
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    sys_.mount("proc", os.path.join(root, "proc"), "proc")
    sysfs = os.path.join(root, "sys")
    sys_.mount("/sys", sysfs, flags=sys_.MS_BIND | sys_.MS_REC)
    make_readonly(sysfs)
    device_root = os.path.join(root, "dev")
    sys_.mount("tmpfs", device_root, "tmpfs", data="mode=0755")
    for name in DEVICES:
        node = os.path.join(device_root, name)
        _touch(node)
        sys_.mount(f"/dev/{name}", node, flags=sys_.MS_BIND)
    for name, link in DEVICE_LINKS.items():
        os.symlink(link, os.path.join(device_root, name))
    for name in ("pts", "shm"):
        os.mkdir(os.path.join(device_root, name))
    sys_.mount("devpts", f"{device_root}/pts", "devpts", data="newinstance,ptmxmode=0666,mode=0620")
    sys_.mount("tmpfs", f"{device_root}/shm", "tmpfs", data="mode=1777")


def _needed(root: str, paths: Iterable[str]) -> None:
    for path in paths:
        if _hidden(path):
            _show(root, path)


def _show(root: str, path: str) -> None:
    target = resolve(root, path)
    _mount_point(target, is_directory=os.path.isdir(path))
    sys_.mount(path, target, flags=sys_.MS_BIND | sys_.MS_REC)
    make_readonly(target)


def _uncover(root: str, plan: Plan) -> None:
    """Show again what is needed and lies below a volume, such as a checkout in /tmp.

    The volume then holds the empty directories that lead there.
    """
    volumes = tuple(bind.target.rstrip("/") + "/" for bind in plan.binds)
    shown = [path for path in plan.needed if path.startswith(volumes)]
    for path in shown:
        _show(root, path)
    for path in plan.masks:
        if any(path.startswith(above + "/") for above in shown):
            _mask(root, path)


def _hidden(path: str) -> bool:
    """Whether the overlay of its top-level directory does not show `path`."""
    top = path.split("/", 2)[1]
    if top in OWN:
        return True
    return os.path.exists(path) and os.stat(path).st_dev != os.stat(f"/{top}").st_dev


def _mask(root: str, path: str) -> None:
    target = resolve(root, path)
    with contextlib.suppress(OSError):
        os.makedirs(target, exist_ok=True)
    if os.path.isdir(target):
        sys_.mount("tmpfs", target, "tmpfs", flags=sys_.MS_RDONLY, data="size=4k,mode=0555")


def _volumes(root: str, plan: Plan, layers: Iterable[str]) -> None:
    binds = sorted(plan.binds, key=lambda bind: (bind.target.count("/"), bind.target))
    outer: list[tuple[Bind, str]] = []
    for bind in binds:
        target = resolve(root, bind.target)
        if not any(target.startswith(place + "/") for _, place in outer):
            _mount_point(target, is_directory=os.path.isdir(bind.source))
        outer.append((bind, target))
    if plan.readonly:
        for path in (*layers, root):
            make_readonly(path)
    for bind, target in outer:
        _mount_point(target, is_directory=os.path.isdir(bind.source))
        sys_.mount(bind.source, target, flags=sys_.MS_BIND | sys_.MS_REC)
        if bind.readonly:
            make_readonly(target)


def make_readonly(path: str) -> None:
    """Remount `path` read-only, with the flags that a user namespace may not take away."""
    found = os.statvfs(path).f_flag
    kept = sum(flag for bit, flag in _KEPT_FLAGS.items() if found & bit)
    sys_.mount("none", path, flags=sys_.MS_REMOUNT | sys_.MS_BIND | sys_.MS_RDONLY | kept)


def _mount_point(path: str, *, is_directory: bool) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(path if is_directory else os.path.dirname(path), exist_ok=True)
    if not is_directory:
        _touch(path)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
