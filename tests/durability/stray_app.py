"""An app whose tool leaves a task behind, which later harms the worker's event loop."""

import asyncio
import os
import time
from pathlib import Path

from sojourn import Agent, App, PlanResult, Toolset, Turn

STAGE = Path(os.environ["DURABLE_STAGE"])
GONE = STAGE / "gone"
"""A file that the task makes just before it does harm."""

stray = Toolset("durable.stray")

LEFT: list[asyncio.Task[None]] = []


def exit_in_handler(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Exit for any fault that the loop reports."""
    raise SystemExit(4)


async def harm(how: str) -> None:
    """Wait until the test has made the file `go`, after the call was answered, then harm the event loop."""
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
    """Start a task that outlives the call."""
    LEFT.append(asyncio.create_task(harm(how)))
    return "left"


async def plan(turn: Turn) -> PlanResult:
    """Call the tool with the first message, then answer."""
    if turn.tool_results:
        return PlanResult.final("done")
    return PlanResult.calls(leave.call(how=turn.messages[0].text))


app = App(agents=[Agent("durable.stray", planner=plan, uses=[stray])])
