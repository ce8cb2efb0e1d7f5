"""A stand-in as a process: `python -m tests.models.standin [SCRIPT]`.

SCRIPT is JSON, see `tasks.load`. The process prints its port as the first line, and serves until it is killed.
"""

import asyncio
import json
import sys

from tests.models.standin import tasks
from tests.models.standin.server import Standin


async def serve(written: str) -> None:
    """Serve a script until cancelled."""
    async with Standin(tasks.load(json.loads(written))) as standin:
        print(standin.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "[]"))
