"""`python -m bench.worker NAME ADDRESS`: one contender's worker process, until its standard input ends."""

import asyncio
import sys

from bench.contenders import CONTENDERS, PEERS
from sojourn.logs import configure_logs

__all__: list[str] = []


async def serve(name: str, address: str) -> None:
    """Serve until standard input ends, as it does with the process that started this one."""
    configure_logs()  # as `sojourn worker` does
    contender = next(c for c in [*CONTENDERS, *PEERS.values()] if c and c.name == name)
    async with contender.worker(await contender.connect(address)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
