"""Which identities a container's user namespace has. Standard library only, as for `syscalls`."""

from __future__ import annotations


def lines(wanted: int, available: int) -> str:
    """The text of a uid_map or gid_map: `wanted` inside is 0 outside, the rest keeps its order.

    available: how many identities the outer namespace has (1 for a plain user's sandbox).
    """
    entries = [(wanted, 0, 1)]
    below = min(wanted, available - 1)
    if below > 0:
        entries.append((0, 1, below))
    if wanted < available - 1:
        entries.append((wanted + 1, wanted + 1, available - 1 - wanted))
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in entries)
