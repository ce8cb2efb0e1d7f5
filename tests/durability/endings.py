"""Short client programs, one after the other: how many of them end as they should.

`python tests/durability/endings.py COUNT` starts a server of its own; with its address as a second
argument it uses one that is there. Each program is a fork of one that has imported everything, since
imports are what would take the time, and ends as any program does: by the interpreter's own end.
"""

import asyncio
import collections
import os
import sys
import tempfile

from sojourn import Client
from sojourn.server import Server

AT_ONCE = 4


async def connect(address: str) -> None:
    """Connect, and end."""
    await Client.connect(address)


async def ask(address: str) -> None:
    """Ask one thing, and end in the middle of the answer."""
    client = await Client.connect(address)
    async for _ in client.list_runs():
        break


async def leave(address: str) -> None:
    """End while a question is on its way."""
    client = await Client.connect(address)
    asking = asyncio.create_task(client.temporal.count_workflows())
    await asyncio.sleep(0)
    assert not asking.done()


PROGRAMS = [connect, ask, leave]


def endings(address: str, count: int) -> tuple[collections.Counter[int], str]:
    """The exit codes of so many programs, and what they wrote to standard error."""
    codes, live, started = collections.Counter[int](), 0, 0
    with tempfile.TemporaryFile() as errors:
        while started < count or live:
            while started < count and live < AT_ONCE:
                if os.fork() == 0:
                    os.dup2(errors.fileno(), 2)
                    asyncio.run(PROGRAMS[started % len(PROGRAMS)](address))
                    sys.exit(0)
                started, live = started + 1, live + 1
            _, status = os.wait()
            codes[os.waitstatus_to_exitcode(status)] += 1
            live -= 1
        errors.seek(0)
        return codes, errors.read().decode(errors="replace")


async def with_server(count: int) -> int:
    """Count them on a server of our own, in a process that has used the SDK for nothing."""
    async with Server(port=0, ui=False, attach=False) as server:
        counting = await asyncio.create_subprocess_exec(sys.executable, __file__, str(count), server.address)
        return await counting.wait()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        found, said = endings(sys.argv[2], int(sys.argv[1]))
        print(
            f"{found[0]} of {found.total()} ended well; others by exit code: {dict(found - collections.Counter({0: found[0]}))}"
        )
        print(said[-2_000:])
        sys.exit(0 if found[0] == found.total() and not said else 1)
    sys.exit(asyncio.run(with_server(int(sys.argv[1]))))
