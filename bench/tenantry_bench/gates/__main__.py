"""The command."""

import sys

from tenantry_bench.gates.main import main

if __name__ == "__main__":
    sys.exit(main())
