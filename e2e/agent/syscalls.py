"""The Linux calls that the standard library of Python 3.11 lacks, by ctypes.

Every function raises OSError with the call's errno. Standard library only: the runner imports
this module in a process that has neither the virtual environment nor `site`.
"""

from __future__ import annotations

import ctypes
import os
import platform

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2

CAP_DAC_READ_SEARCH = 2
LAST_CAP = 40

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces of its own."""
    _checked(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(descriptor: int, flags: int) -> None:
    """Enter the namespaces of an open namespace file or pidfd."""
    _checked(_libc.setns(descriptor, flags), f"setns {flags:#x}")


def mount(source: str, target: str, fstype: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(), target.encode(), fstype.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _checked(result, f"mount {fstype or source} on {target}")


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _checked(_libc.umount2(target.encode(), flags), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """pivot_root(2); `.` twice stacks the old root under the new one."""
    number = _PIVOT_ROOT[platform.machine()]
    _checked(_libc.syscall(number, new_root.encode(), put_old.encode()), "pivot_root")


def _prctl(option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    _checked(_libc.prctl(option, *padded), f"prctl {option}")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send `signal_number` when the thread that forked this process ends.

    A change of credentials takes the setting away, so it is set again after each.
    """
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def no_new_privileges() -> None:
    """No set-uid program gives this process or its children anything any more."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    """Take every capability away from whatever is executed next."""
    for capability in range(LAST_CAP + 1):
        _prctl(_PR_CAPBSET_DROP, capability)


def keep_across_exec(capability: int) -> None:
    """Raise one capability (of the first 32) into the ambient set: it survives execve."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, sets), "capget")
    sets[2] |= 1 << capability
    _checked(_libc.capset(header, sets), "capset")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
