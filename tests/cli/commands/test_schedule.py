"""`sojourn schedule show`: a schedule as people read it."""

import uuid


async def test_a_schedule_says_how_often_it_acted(served, until):
    """Never, once, or several times, each in the right number."""
    name = f"morning-{uuid.uuid4().hex[:8]}"
    made = await served.sojourn("schedule", "create", "desk.clerk", "hello", "--every", "1d", "--id", name)
    assert made.code == 0, made.err
    schedule = served.client.get_schedule(name)

    async def said(count: int) -> str:
        async def has_acted():
            return (await schedule.status()).count == count

        await until(has_acted)
        return (await served.sojourn("schedule", "show", name)).out.splitlines()[0]

    try:
        for count, words in enumerate(["acted 0 times", "acted 1 time", "acted 2 times"]):
            assert (await said(count)).endswith(f"  {words}")
            await schedule.trigger()
    finally:
        await schedule.delete()
