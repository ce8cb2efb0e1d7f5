"""`python -m bench.crowd`: time and memory of 200 runs of 10 calls at once on one worker, for each contender."""

import asyncio
import sys
import time
import uuid

from bench.contenders import CONTENDERS
from bench.measure import Lane, lane
from sojourn.server import Server

RUNS = 200
CALLS = 10


async def crowd(one: Lane) -> tuple[float, float]:
    """Seconds until all runs have ended, and the worker's highest resident memory in MB during that time."""
    highest = 0.0

    async def watch() -> None:
        nonlocal highest
        while True:
            highest = max(highest, one.process.memory_info().rss / 1e6)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    tag = uuid.uuid4().hex[:8]
    start = one.contender.start
    handles = await asyncio.gather(*(start(one.client, f"{tag}-{number}", CALLS) for number in range(RUNS)))
    await asyncio.gather(*(handle.result() for handle in handles))
    took = time.perf_counter() - began
    watching.cancel()
    return took, highest


async def main() -> None:
    """Measure each contender in turn, twice; the first time warms up the server."""
    async with Server(attach=False, port=0, ui=False) as server:
        for attempt in ("warm-up", "measured"):
            floor = 0.0
            for contender in CONTENDERS:
                async with lane(contender, server.address) as one:
                    took, memory = await crowd(one)
                floor = floor or took
                sys.stdout.write(
                    f"{attempt:9} {contender.name:8} {took:6.1f} s   {took / floor:4.2f} of the floor   "
                    f"{memory:4.0f} MB at the peak\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
