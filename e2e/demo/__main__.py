"""`python -m e2e.demo`."""

import sys

from e2e.demo.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
