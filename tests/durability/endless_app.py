"""An app whose tool blocks the event loop for ever; its worker is given up after 3 s of that, not after 120."""

import time

from durable_app import record

import activities.loop_watch
from sojourn import Agent, App, PlanResult, Toolset, Turn

activities.loop_watch.GIVEN_UP = 3.0

endless = Toolset("durable.endless")


@endless.tool
async def spin() -> str:
    """Never let go of the loop."""
    record("start", "spin")
    while True:
        time.sleep(1)


async def plan(turn: Turn) -> PlanResult:
    """Call it, then tell what became of that."""
    if turn.tool_results:
        (result,) = turn.tool_results
        return PlanResult.final(str(result.error))
    return PlanResult.calls(spin.call())


app = App(agents=[Agent("durable.endless", planner=plan, uses=[endless])])
