"""Short client programs, four at a time: how many of them exit with 0 and print no error.

`python tests/durability/endings.py COUNT` starts a server of its own; with an address as a second
argument it uses the server there. Each program is a fork of a process that has imported everything,
which saves the time of the imports, and ends as any program does, with the interpreter's shutdown.
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
    """Connect, then end."""
    await Client.connect(address)


async def ask(address: str) -> None:
    """List runs, then end after the first."""
    client = await Client.connect(address)
    async for _ in client.list_runs():
        break


async def leave(address: str) -> None:
    """End while a request is under way."""
    client = await Client.connect(address)
    asking = asyncio.create_task(client.temporal.count_workflows())
    await asyncio.sleep(0)
    assert not asking.done()


PROGRAMS = [connect, ask, leave]


def endings(address: str, count: int) -> tuple[collections.Counter[int], str]:
    """The exit codes of `count` programs, and what they wrote to standard error."""
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
    """Start a server, and run the programs from a new process, in which the SDK has not been used; return its exit code."""
    async with Server(port=0, ui=False, attach=False) as server:
        counting = await asyncio.create_subprocess_exec(sys.executable, __file__, str(count), server.address)
        return await counting.wait()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        found, errors = endings(sys.argv[2], int(sys.argv[1]))
        print(
            f"{found[0]} of {found.total()} exited with 0; others by exit code: {dict(found - collections.Counter({0: found[0]}))}"
        )
        print(errors[-2_000:])
        sys.exit(0 if found[0] == found.total() and not errors else 1)
    sys.exit(asyncio.run(with_server(int(sys.argv[1]))))
