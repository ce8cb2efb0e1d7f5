"""An app whose tools log, wait for one another, and fail in several ways."""

import asyncio
import logging
import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import structlog

from sojourn import Agent, App, PlanResult, RateLimited, ToolCallMeta, ToolFailed, Toolset, Turn

MEETING = Path(os.environ.get("MEETING", "."))
"""A folder in which calls say that they are there, so that they are all in flight at once."""

log = structlog.get_logger("shop.tools")
standard = logging.getLogger("shop.standard")
tools = Toolset("shop.tools")


def arrive(mark: str) -> None:
    (MEETING / mark).touch()


def are_all_here(mark: str, count: int) -> bool:
    """Whether so many have arrived whose mark is the same up to its dash."""
    meeting, _, _ = mark.partition("-")
    return sum(path.name.partition("-")[0] == meeting for path in MEETING.iterdir()) >= count


@tools.tool
async def meet(mark: str, count: int, meta: ToolCallMeta) -> str:
    """Log, wait for the others, log again, from a task and from a thread too."""
    log.info("met", mark=mark, call=meta.tool_call_id, where="before")
    arrive(mark)
    while not are_all_here(mark, count):
        await asyncio.sleep(0.01)

    async def beside() -> None:
        log.info("met", mark=mark, call=meta.tool_call_id, where="task")

    await asyncio.create_task(beside())
    await asyncio.to_thread(log.info, "met", mark=mark, call=meta.tool_call_id, where="thread")
    standard.info("met", extra={"mark": mark, "call": meta.tool_call_id, "where": "after"})
    return mark


@tools.tool
def meet_in_thread(mark: str, count: int, meta: ToolCallMeta) -> str:
    """The same, sync."""
    log.info("met", mark=mark, call=meta.tool_call_id, where="before")
    arrive(mark)
    while not are_all_here(mark, count):
        time.sleep(0.01)
    standard.info("met", extra={"mark": mark, "call": meta.tool_call_id, "where": "after"})
    return mark


@tools.tool
def leave(mark: str, count: int, meta: ToolCallMeta) -> str:
    """Log from a thread that knows nothing of the call: without ids, not with those of another."""
    arrive(mark)
    while not are_all_here(mark, count):
        time.sleep(0.01)
    thread = threading.Thread(target=log.info, args=("left",), kwargs={"mark": mark})
    thread.start()
    thread.join()
    return mark


@tools.tool
async def limited(meta: ToolCallMeta) -> str:
    """Fail once for the network's sake."""
    if meta.attempt == 1:
        raise RateLimited("come back later", retry_after=0.01)
    return "now"


@tools.tool
async def broken(word: str) -> str:
    """Have a bug."""
    lost_in_a_local = "a-value-of-a-local"
    return {}[word + lost_in_a_local[:0]]


@tools.tool
async def refuse(word: str) -> str:
    """Fail as planned."""
    raise ToolFailed(f"no {word}")


@tools.tool(timeout=timedelta(seconds=0.2))
async def late() -> str:
    """Take too long."""
    await asyncio.sleep(60)
    return "never"


@tools.tool(inject=["token"])
async def uninjected(token: str) -> str:
    """Need what nobody fills."""
    return token


async def plan(turn: Turn) -> PlanResult:
    """Call what the message says: `tool`, then its arguments as `name=value`."""
    name, *arguments = turn.messages[0].text.split()
    if turn.tool_results or name == "nothing":
        return PlanResult.final("done")
    if name == "plan":
        if turn.run.labels.get("fails") == "always" or not (MEETING / turn.run.run_id).exists():
            arrive(turn.run.run_id)
            raise ValueError("the planner has a bug")
        return PlanResult.final("planned")
    given = dict(argument.split("=") for argument in arguments)
    payload = {key: int(value) if value.isdecimal() else value for key, value in given.items()}
    return PlanResult.calls(tools.tools[name].call(**payload))


app = App(agents=[Agent("shop.agent", planner=plan, uses=[tools])])
