"""docs/schedules.md: its program creates the schedules that it says."""

import asyncio

from sojourn import Agent, App, PlanResult
from sojourn.errors import ScheduleNotFound


async def clerk(turn) -> PlanResult:
    return PlanResult.final("none")


async def test_the_program_of_the_page(serve, blocks, capsys, until):
    client = await serve(App(agents=[Agent("shop.clerk", planner=clerk)]))
    scope: dict = {}
    for program in blocks("schedules.md"):
        exec(program, scope)
    try:
        await scope["plan_the_day"](client)
        assert "18:00:00+00:00" in capsys.readouterr().out
        daily = client.get_schedule("daily")
        assert not (await daily.status()).paused

        async def both():
            found = [each async for each in client.list_schedules(agent_id="shop.clerk")]
            return {each.timing for each in found} == {"0 8 * * 1-5 Europe/Berlin", "0 18 * * *"} and found

        made = await until(both)
    finally:
        await asyncio.gather(*(client.get_schedule(each.schedule_id).delete() for each in made))
    try:
        await daily.status()
    except ScheduleNotFound:
        return
    raise AssertionError
