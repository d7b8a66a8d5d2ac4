"""A program of one part, started where the packages of another part may be all there is.

The wheel holds every part, an extra brings the packages of one. So each program is there after any
installation, and says in one sentence what it lacks.
"""

import sys
from importlib import import_module

LACKING = 3


def lack(program: str, error: ModuleNotFoundError, extra: str) -> str:
    """The sentence for a package that is not installed. Raises `error` where it is one of ours."""
    if error.name is None or error.name.startswith("tenantry_"):
        raise error
    return f"{program}: needs the package {error.name}: pip install 'tenantry[{extra}]'"


def run(program: str, module: str, extra: str) -> int:
    """The exit code of `module.main()`, or 3 where a package that it imports is missing."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{lack(program, error, extra)}\n")
        return LACKING
    return int(main())
