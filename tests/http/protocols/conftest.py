"""Fixtures: the protocols' own clients, in Node, as programs of their own; and who asks, by a key that says it."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn import Principal
from tests.node_modules import installed

NODE = Path(__file__).parents[1] / "node"


@pytest.fixture(scope="session")
def node_modules(processes) -> Path:
    """Install the clients that package-lock.json pins, once for all processes of the tests."""
    if shutil.which("npm") is None:
        pytest.skip("node and npm are not installed: the protocols' clients in JavaScript cannot run")
    installed(NODE)
    return NODE


class Person:
    """A program that uses the service as a person's page does."""

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self._program = program

    async def line(self) -> Any:
        """What it prints next."""
        assert self._program.stdout
        line = await self._program.stdout.readline()
        if not line:
            assert self._program.stderr
            raise AssertionError((await self._program.stderr.read()).decode()[-3_000:])
        return json.loads(line)


Start = Callable[..., Awaitable[Person]]


@pytest.fixture
async def start(node_modules) -> AsyncIterator[Start]:
    """Start a client by its script, the address that it talks to, its thread or chat, and what it does."""
    async with contextlib.AsyncExitStack() as stack:

        async def started(script: str, url: str, session: str, **plan: Any) -> Person:
            program = await asyncio.create_subprocess_exec(
                *("node", script, url, session, json.dumps(plan)),
                cwd=node_modules,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=10_000_000,
            )
            stack.push_async_callback(ended, program)
            return Person(program)

        yield started


async def ended(program: asyncio.subprocess.Process) -> None:
    """End a program."""
    with contextlib.suppress(ProcessLookupError):
        program.kill()
    await program.communicate()


@pytest.fixture
def principals():
    """An `auth`: the key `ana@acme` is a user of that tenant, `+approver` adds the role, and `-user` takes that one away."""

    async def auth(request):
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        subject, at, rest = key.partition("@")
        if not at:
            return None
        tenant = rest.partition("+")[0].partition("-")[0]
        roles = ["viewer"] if "-user" in rest else ["user", *rest.split("+")[1:]]
        return Principal(subject=subject, tenant=tenant, roles=roles)

    return auth
