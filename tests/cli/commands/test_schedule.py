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


async def test_a_schedule_of_a_tenant_is_shown_in_its_own_zone(served):
    """`AGENT:TENANT` starts runs of the tenant; times have the schedule's zone, and a time that does not exist is warned of."""
    name = f"spring-{uuid.uuid4().hex[:8]}"
    words = (
        "desk.clerk:acme",
        "hello {scheduled_at}",
        "--cron",
        "30 2 28 3 *",
        "--time-zone",
        "Europe/Berlin",
    )
    made = await served.sojourn("schedule", "create", *words, "--id", name)
    schedule = served.client.get_schedule(name)
    try:
        assert (made.code, made.out) == (0, f"{name}\n"), made.err
        skips = "2027-03-28 02:30 Europe/Berlin: this local time does not exist, since the clocks go forward"
        assert skips in made.err
        shown = (await served.sojourn("schedule", "show", name)).out
        assert "next  2028-03-28 02:30:00 Europe/Berlin\n" in shown
        assert f"skips {skips}\n" in shown
        found = await served.client.temporal.get_schedule_handle(name).describe()
        (sent,) = await served.client.temporal.data_converter.decode(found.schedule.action.args)
        assert (sent["principal"]["tenant"], sent["time_zone"]) == ("acme", "Europe/Berlin")
    finally:
        await schedule.delete()
