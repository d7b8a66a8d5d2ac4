"""`python -m e2e.agent.main --config FILE`: the node agent, started inside the sandbox."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from e2e.agent import config
from e2e.agent.agent import serve


async def _until_told(chosen: config.AgentConfig) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(serve(chosen))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("stopped; every pod's processes end with this one")


def main() -> int:
    """Exit status 0 after SIGTERM, 2 where the configuration cannot be used."""
    parser = argparse.ArgumentParser(prog="e2e.agent", description=__doc__)
    parser.add_argument("--config", required=True, type=Path)
    path: Path = parser.parse_args().config
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        chosen = config.read(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        sys.stderr.write(f"{path}: {error!r}\n")
        return 2
    asyncio.run(_until_told(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
