"""Waits until SIGTERM or SIGINT."""

import signal
import sys


def main() -> int:
    """Exit status 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
