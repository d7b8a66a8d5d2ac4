"""`python -m e2e.cluster`."""

import sys

from e2e.cluster.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
