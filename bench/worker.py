"""`python -m bench.worker NAME ADDRESS`: one contender's worker process, until its standard input ends."""

import asyncio
import sys

from bench.contenders import CONTENDERS, FLOOR, PEERS
from sojourn.logs import configure_logs
from sojourn.serving.hardening.loop_guard import new_event_loop

__all__: list[str] = []


async def serve(name: str, address: str) -> None:
    """Serve until standard input ends, as it does with the process that started this one."""
    configure_logs()  # as `sojourn worker` does
    contender = next(c for c in [*CONTENDERS, *PEERS.values()] if c and c.name == name)
    async with contender.worker(await contender.connect(address)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    name, address = sys.argv[1:]
    # Sojourn's worker has a loop of its choice; the others run as Temporal's documentation shows.
    is_plain = name == FLOOR.name or name in PEERS
    with asyncio.Runner(loop_factory=None if is_plain else new_event_loop) as runner:
        runner.run(serve(name, address))
