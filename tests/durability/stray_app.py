"""An app whose tool leaves code behind, which then does something to the worker's event loop."""

import asyncio
import os
import time
from pathlib import Path

from sojourn import Agent, App, PlanResult, Toolset, Turn

STAGE = Path(os.environ["DURABLE_STAGE"])
GONE = STAGE / "gone"
"""There once the code that was left behind has done what it does."""

stray = Toolset("durable.stray")

LEFT: list[asyncio.Task[None]] = []


def exit_in_handler(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Take a loop's fault for the end of the program."""
    raise SystemExit(4)


async def harm(how: str) -> None:
    """Do it, when the call is long answered."""
    while not (STAGE / "go").exists():
        await asyncio.sleep(0.02)
    GONE.touch()
    loop = asyncio.get_running_loop()
    match how:
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "stop":
            loop.stop()
        case "handler":
            loop.set_exception_handler(exit_in_handler)
            loop.call_soon(divmod, 1, 0)
        case "cancel":
            for task in asyncio.all_tasks():
                task.cancel()
        case "block":
            while True:
                time.sleep(0.02)
        case _:
            while True:
                try:
                    await asyncio.sleep(0.02)
                except asyncio.CancelledError:
                    continue


@stray.tool
async def leave(how: str) -> str:
    """Leave something behind."""
    LEFT.append(asyncio.create_task(harm(how)))
    return "left"


async def plan(turn: Turn) -> PlanResult:
    """Call the tool with what the person said, then answer."""
    if turn.tool_results:
        return PlanResult.final("done")
    return PlanResult.calls(leave.call(how=turn.messages[0].text))


app = App(agents=[Agent("durable.stray", planner=plan, uses=[stray])])
