"""Cache: concurrent reads of a key are one, entries expire and are bounded, and errors are not cached."""

import asyncio
from collections.abc import Callable

import pytest

from sojourn.reader import Cache


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Counts its readings, which wait until they may end."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        if is_open:
            self.may_end.set()

    async def read(self) -> int:
        self.count += 1
        number = self.count
        await self.may_end.wait()
        return number


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0)


async def test_concurrent_reads_of_a_key_are_one():
    """Callers that come while a key is read, or while it is fresh, share one reading; another key has its own."""
    cache, source = Cache[str, int](10), Source(is_open=False)
    together = [asyncio.create_task(cache.get("key", source.read)) for _ in range(3)]
    await until(lambda: source.count == 1)
    source.may_end.set()
    assert await asyncio.gather(*together) == [1, 1, 1]
    assert await cache.get("key", source.read) == 1
    assert await cache.get("other", source.read) == 2


async def test_an_entry_lives_from_the_beginning_of_its_reading():
    """What a slow reading found is as old as its beginning, and a call may give an entry another lifetime."""
    clock, source = Clock(), Source(is_open=False)
    cache = Cache[str, int](10, 5.0, clock=clock)
    slow = asyncio.create_task(cache.get("key", source.read))
    await until(lambda: source.count == 1)
    clock.now += 4
    source.may_end.set()
    assert await slow == 1
    assert await cache.get("key", source.read) == 1
    clock.now += 1
    assert await cache.get("key", source.read) == 2
    assert await cache.get("long", source.read, seconds=60) == 3
    clock.now += 59
    assert await cache.get("long", source.read) == 3


async def test_an_error_is_not_cached():
    """Whoever waits for a reading gets its error, and the next caller reads again."""
    cache = Cache[str, int](10)

    async def fail() -> int:
        raise OSError("the server is away")

    both = await asyncio.gather(*(cache.get("key", fail) for _ in range(2)), return_exceptions=True)
    assert [str(each) for each in both] == ["the server is away"] * 2
    assert await cache.get("key", Source().read) == 1


async def test_the_least_recently_used_is_evicted():
    """A full cache evicts the entry that was not used for the longest time."""
    cache, source = Cache[int, int](3), Source()
    for key in (1, 2, 3, 1, 4):
        await cache.get(key, source.read)
    assert source.count == 4
    assert (cache.peek(1), cache.peek(2), len(cache)) == (1, None, 3)


async def test_a_reading_goes_on_if_its_caller_is_cancelled():
    """A cancelled caller cancels no reading that others wait for."""
    cache, source = Cache[str, int](10), Source(is_open=False)
    first, second = (asyncio.create_task(cache.get("key", source.read)) for _ in range(2))
    await until(lambda: source.count == 1)
    first.cancel()
    source.may_end.set()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("act", ["put", "discard"])
async def test_a_reading_from_before_a_change_is_not_cached(act: str):
    """After `put` or `discard`, what an older reading finds goes to its callers alone."""
    cache, source = Cache[str, int](10), Source(is_open=False)
    before = asyncio.create_task(cache.get("key", source.read))
    await until(lambda: source.count == 1)
    if act == "put":
        cache.put("key", 70)
    else:
        cache.discard("key")
    source.may_end.set()
    assert await before == 1
    assert await cache.get("key", source.read) == (70 if act == "put" else 2)


async def test_an_older_value_is_there_while_it_is_read_again():
    """`get_soon` waits a moment for a new value, and has the older one if that takes longer."""
    clock, source = Clock(), Source()
    cache = Cache[str, int](10, 30.0, clock=clock)

    async def soon(patience: float = 0.0) -> int | None:
        return await cache.get_soon("key", source.read, fresh=1.0, patience=patience, first=10.0)

    assert await soon() == 1
    clock.now += 2
    source.may_end.clear()
    assert await soon() == 1
    assert await soon() == 1
    source.may_end.set()
    assert await soon(10.0) == 2
    assert source.count == 2


async def test_no_value_in_time_is_none():
    """`get_soon` has None if the first reading takes longer, which goes on for the next caller."""
    cache, source = Cache[str, int](10), Source(is_open=False)
    assert await cache.get_soon("key", source.read, fresh=1.0, patience=0.0) is None
    source.may_end.set()
    assert await cache.get_soon("key", source.read, fresh=1.0, patience=10.0) == 1
    assert source.count == 1


async def test_what_takes_long_is_read_less_often():
    """With `share`, a value is fresh for so many times the time that its reading took."""
    clock = Clock()
    cache = Cache[str, int](10, clock=clock)
    source = Source()

    async def slow() -> int:
        clock.now += 3
        return await source.read()

    async def soon() -> int | None:
        return await cache.get_soon("key", slow, fresh=1.0, patience=10.0, share=5)

    assert await soon() == 1
    clock.now += 14
    assert await soon() == 1
    clock.now += 2
    assert await soon() == 2
