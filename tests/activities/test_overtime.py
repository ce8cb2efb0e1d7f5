"""A call that exceeded its time limit is answered, whatever its coroutine does."""

import asyncio

import pytest
from temporalio.testing import ActivityEnvironment

from sojourn.serving.hardening import overtime
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation


async def test_a_value_is_returned_and_an_exception_raised():
    """`await_with_grace` returns the value of its awaitable, or raises its exception."""

    async def give(value):
        if isinstance(value, Exception):
            raise value
        return value

    assert await await_with_grace("a.b.c", give(3)) == 3
    with pytest.raises(ValueError, match="no"):
        await await_with_grace("a.b.c", give(ValueError("no")))


async def test_a_cancelled_tool_may_clean_up(monkeypatch):
    """A cancelled tool has time for its clean-up; an exception that it raises meanwhile is dropped."""
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


async def test_a_tool_that_ignores_its_cancellation_is_abandoned(monkeypatch):
    """A tool that swallows its cancellation delays its caller by no more than `GRACE`."""
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
    ("raised", "expected"),
    [(SystemExit, SystemExit), (KeyboardInterrupt, RuntimeError), (asyncio.CancelledError, RuntimeError)],
)
async def test_an_exception_that_would_end_the_loop_is_an_error_of_the_tool(raised, expected):
    """An exception that an event loop would act on neither stops the worker nor counts as a cancellation."""

    async def work():
        raise raised

    with pytest.raises(expected):
        await await_with_grace("a.b.c", work())


async def test_a_cancellation_stays_one_where_foreign_code_has_taken_it_back():
    """A cancelled activity is cancelled even if the code that it ran called `uncancel`; the same error unasked for is none."""
    environment, seen = ActivityEnvironment(), []

    async def work() -> None:
        seen.append(is_cancellation(asyncio.CancelledError()))
        environment.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            asyncio.current_task().uncancel()
            seen.append(is_cancellation(error))

    await environment.run(work)
    assert seen == [False, True]
