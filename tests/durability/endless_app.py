"""An app whose tool blocks the event loop for ever, and whose worker ends after 3 s of that instead of 120."""

import time

from durable_app import record

import sojourn.serving.hardening.loop_watch
from sojourn import Agent, App, PlanResult, Toolset, Turn

sojourn.serving.hardening.loop_watch.GIVEN_UP = 3.0

endless = Toolset("durable.endless")


@endless.tool
async def spin() -> str:
    """Block the event loop for ever."""
    record("start", "spin")
    while True:
        time.sleep(1)


async def plan(turn: Turn) -> PlanResult:
    """Call `spin`, then answer with its error."""
    if turn.tool_results:
        (result,) = turn.tool_results
        return PlanResult.final(str(result.error))
    return PlanResult.calls(spin.call())


app = App(agents=[Agent("durable.endless", planner=plan, uses=[endless])])
