"""The one error of `e2e`: the environment lacks something, or a component failed."""

import errno

EXIT = 3
"""Exit status of a command that met a `Problem`."""


class Problem(RuntimeError):
    """One sentence that says what, why and what to do."""


def sentence(error: BaseException) -> str:
    """`error` as one sentence for a person; a full disk is named as one."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" (writing {error.filename})" if error.filename else ""
        return f"the disk is full{where}; make room and run it again"
    if isinstance(error, PermissionError) and error.filename:
        return f"{error.filename} is not ours to write; give it to this user or choose another"
    if isinstance(error, Problem):
        return str(error)
    return f"{type(error).__name__}: {error}"
