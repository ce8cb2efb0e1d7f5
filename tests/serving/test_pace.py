"""Long works share the event loop: one slice of one of them in each round."""

import asyncio
import time
from weakref import WeakKeyDictionary

from sojourn.serving import pace
from sojourn.serving.pace import SLICE, Pace


def work() -> None:
    """Keep the processor busy for longer than a slice."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < 2 * SLICE:
        pass


async def test_a_round_of_the_loop_has_one_slice_of_all_long_works():
    """However many there are, what else is ready comes after at most one slice, and they take turns."""
    rounds, slices = [0], list[tuple[int, int]]()

    async def long_work(number: int) -> None:
        pace = Pace()
        for _ in range(5):
            await pace.rest()
            with pace:
                work()
            slices.append((rounds[0], number))
        await pace.rest()

    async def other() -> None:
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(other())
    await asyncio.gather(*(long_work(number) for number in range(6)))
    counting.cancel()
    later = [(round, number) for round, number in slices if round > slices[5][0]]
    assert len(later) == 24
    assert len({round for round, _ in later}) == 24
    assert [number for _, number in later] == list(range(6)) * 4


async def test_short_work_never_waits():
    """Steps that take less than a slice together give the loop to nobody."""
    pace, is_other_run = Pace(), False

    async def other() -> None:
        nonlocal is_other_run
        is_other_run = True

    waiting = asyncio.create_task(other())
    with pace:
        pass
    await pace.rest()
    assert not is_other_run
    await waiting


async def test_who_is_cancelled_while_it_waits_holds_up_nobody():
    """The others still get their turns, and a later work too."""

    async def long_work() -> None:
        pace = Pace()
        for _ in range(3):
            with pace:
                work()
            await pace.rest()

    first, second = asyncio.create_task(long_work()), asyncio.create_task(long_work())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled() or first.cancelling()
    await long_work()


async def test_few_large_answers_are_on_their_way_at_once(monkeypatch):
    """A third waits for one of two; one that the server holds back counts no longer after a while."""
    monkeypatch.setattr(pace, "LONGEST_FETCH", 0.05)
    monkeypatch.setattr(pace, "_fetches", WeakKeyDictionary())
    at_once, most, held = 0, 0, asyncio.Event()

    async def fetch() -> None:
        nonlocal at_once, most
        async with pace.fetching():
            at_once, most = at_once + 1, max(most, at_once + 1)
            await asyncio.sleep(0)
            at_once -= 1

    await asyncio.gather(*(fetch() for _ in range(10)))
    assert most == pace.FETCHES

    async def hold() -> None:
        async with pace.fetching():
            await held.wait()

    holding = [asyncio.create_task(hold()) for _ in range(pace.FETCHES)]
    async with asyncio.timeout(60):
        await fetch()
    held.set()
    await asyncio.gather(*holding)
    assert most == pace.FETCHES
