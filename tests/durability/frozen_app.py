"""An app whose every execution is recorded with its time, on a disk, before it has any other effect.

DURABLE_STAGE names a folder. An execution adds a line to the folder's `began.jsonl`, flushed to the disk.
"""

import json
import os
import time
from pathlib import Path

from temporalio import activity

from sojourn import Agent, App, Notice, PlanResult, Toolset, Turn

STAGE = Path(os.environ["DURABLE_STAGE"])


def began(what: str) -> None:
    """Record that an execution begins."""
    info = activity.info()
    line = json.dumps(
        {
            "what": what,
            "run": info.workflow_id,
            "activity": info.activity_id,
            "time": time.time(),
            "pid": os.getpid(),
        }
    )
    records = os.open(STAGE / "began.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(records, f"{line}\n".encode())
        os.fsync(records)
    finally:
        os.close(records)


tools = Toolset("frozen.tools")


@tools.tool
async def plain() -> str:
    """Begin."""
    began("plain")
    return "done"


@tools.tool
def threaded() -> str:
    """Begin in a thread."""
    began("threaded")
    return "done"


@tools.tool(idempotent=False)
async def once() -> str:
    """Begin, at most once."""
    began("once")
    return "done"


@tools.tool(local=True, idempotent=True)
async def near() -> str:
    """Begin in the workflow's own worker."""
    began("near")
    return "done"


async def plan(turn: Turn) -> PlanResult:
    """Call every tool, then answer."""
    began("plan")
    if turn.messages[-1].role == "tool":
        return PlanResult.final("done")
    return PlanResult.calls(plain.call(), threaded.call(), once.call(), near.call())


async def told(notice: Notice) -> None:
    """Record the notice."""
    began(f"notice {notice.kind}")


app = App(agents=[Agent("frozen.agent", planner=plan, uses=[tools])], on_end=told)
