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
"""A folder in which each call creates a file, so that calls can wait until all are in flight."""

log = structlog.get_logger("shop.tools")
standard = logging.getLogger("shop.standard")
tools = Toolset("shop.tools")


def arrive(mark: str) -> None:
    (MEETING / mark).touch()


def are_all_here(mark: str, count: int) -> bool:
    """Whether `count` calls have arrived whose mark has the same prefix before its dash."""
    meeting, _, _ = mark.partition("-")
    return sum(path.name.partition("-")[0] == meeting for path in MEETING.iterdir()) >= count


@tools.tool
async def meet(mark: str, count: int, meta: ToolCallMeta) -> str:
    """Log, wait for the other calls, and log again, also from a task and from a thread."""
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
    """Log before and after waiting for the other calls, in a sync tool."""
    log.info("met", mark=mark, call=meta.tool_call_id, where="before")
    arrive(mark)
    while not are_all_here(mark, count):
        time.sleep(0.01)
    standard.info("met", extra={"mark": mark, "call": meta.tool_call_id, "where": "after"})
    return mark


@tools.tool
def leave(mark: str, count: int, meta: ToolCallMeta) -> str:
    """Log from a thread that does not inherit the call's context."""
    arrive(mark)
    while not are_all_here(mark, count):
        time.sleep(0.01)
    thread = threading.Thread(target=log.info, args=("left",), kwargs={"mark": mark})
    thread.start()
    thread.join()
    return mark


@tools.tool
async def limited(meta: ToolCallMeta) -> str:
    """Fail at the first attempt with a rate limit."""
    if meta.attempt == 1:
        raise RateLimited("come back later", retry_after=0.01)
    return "now"


@tools.tool
async def broken(word: str) -> str:
    """Raise by a bug."""
    lost_in_a_local = "a-value-of-a-local"
    return {}[word + lost_in_a_local[:0]]


@tools.tool
async def refuse(word: str) -> str:
    """Raise `ToolFailed`."""
    raise ToolFailed(f"no {word}")


@tools.tool(timeout=timedelta(seconds=0.2))
async def late() -> str:
    """Exceed the time-out."""
    await asyncio.sleep(60)
    return "never"


@tools.tool(inject=["token"])
async def uninjected(token: str) -> str:
    """Need an injected field that nothing fills."""
    return token


async def plan(turn: Turn) -> PlanResult:
    """Call the tool that the message names, with arguments as `name=value`."""
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
