"""A call that is out of time is answered, whatever its coroutine does."""

import asyncio

import pytest

from activities import overtime
from activities.overtime import await_with_grace


async def test_a_value_and_an_exception_come_through():
    """The usual case."""

    async def give(value):
        if isinstance(value, Exception):
            raise value
        return value

    assert await await_with_grace("a.b.c", give(3)) == 3
    with pytest.raises(ValueError, match="no"):
        await await_with_grace("a.b.c", give(ValueError("no")))


async def test_a_tool_may_tidy_up(monkeypatch):
    """Cancelled, it has a moment; what it raises meanwhile is only logged."""
    tidied = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            tidied.append(True)
            raise ValueError("while tidying")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await await_with_grace("a.b.c", work())
    assert tidied == [True]


async def test_a_tool_that_will_not_end_is_left(monkeypatch):
    """One that swallows its cancellation holds nobody up."""
    monkeypatch.setattr(overtime, "GRACE", 0.05)
    go = asyncio.Event()

    async def work():
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("at last")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await await_with_grace("a.b.c", work())
    go.set()
    await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("raised", "comes"),
    [(SystemExit, SystemExit), (KeyboardInterrupt, RuntimeError), (asyncio.CancelledError, RuntimeError)],
)
async def test_what_would_end_the_loop_is_an_error_of_the_tool(raised, comes):
    """None of it stops a worker, or looks like a cancellation that nobody asked for."""

    async def work():
        raise raised

    with pytest.raises(comes):
        await await_with_grace("a.b.c", work())
