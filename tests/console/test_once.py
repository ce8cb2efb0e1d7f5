"""Reads that many pages share: made once, shown for a moment, and never a failure."""

import asyncio
import math

import pytest

from sojourn.console.once import MAX_KNOWN, Once


async def test_what_many_want_at_once_is_read_once():
    """Those who ask while it is read, or while it is fresh, get what was read; others have it read anew."""
    once, begun, ends = Once(), [], asyncio.Event()

    async def read() -> int:
        begun.append(None)
        await ends.wait()
        return len(begun)

    together = [asyncio.create_task(once.read("key", math.inf, read)) for _ in range(3)]
    await asyncio.sleep(0)
    ends.set()
    assert await asyncio.gather(*together) == [1, 1, 1]
    assert await once.read("key", math.inf, read) == 1
    assert await once.read("other", math.inf, read) == 2
    assert await once.read("key", -1, read) == 3


async def test_a_failure_is_not_remembered():
    """Whoever asks after a failed read has it read anew, however fresh the failure is."""
    once = Once()

    async def fail() -> str:
        raise OSError("the server is away")

    async def succeed() -> str:
        return "here"

    with pytest.raises(OSError, match="away"):
        await once.read("key", math.inf, fail)
    assert await once.read("key", math.inf, succeed) == "here"


async def test_the_oldest_is_forgotten_first():
    """It remembers a bounded number of things: of too many it forgets the one that nobody asked for the longest."""
    once, asked = Once(), []

    async def read() -> None:
        asked.append(None)

    for key in [*range(MAX_KNOWN), 0, MAX_KNOWN]:
        await once.read(key, math.inf, read)
    assert len(asked) == MAX_KNOWN + 1
    await once.read(0, math.inf, read)
    assert len(asked) == MAX_KNOWN + 1
    await once.read(1, math.inf, read)
    assert len(asked) == MAX_KNOWN + 2
