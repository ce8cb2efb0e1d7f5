"""The app of the worker processes that the tests kill; it records every execution.

DURABLE_STAGE names a folder. An execution adds a line to the folder's `records.jsonl` when it starts
and another when it ends, each flushed to the disk before the execution continues. Between the two it
waits while the file `<agent>.<point>.hold` exists. So a test knows what a worker was doing when it died.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from temporalio import activity

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    Toolset,
    Turn,
)
from sojourn.testing import ScriptedPlanner

STAGE = Path(os.environ["DURABLE_STAGE"])
WORKER = os.environ["DURABLE_WORKER"]
REMOTE_QUEUE = os.environ.get("DURABLE_REMOTE_QUEUE", "nobody")


def record(event: str, point: str, **fields: Any) -> None:
    """Add a line to the records, and return once it is on the disk."""
    line = json.dumps({"event": event, "point": point, "worker": WORKER, "pid": os.getpid(), **fields})
    records = os.open(STAGE / "records.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(records, f"{line}\n".encode())
        os.fsync(records)
    finally:
        os.close(records)


def is_held(point: str) -> bool:
    """Whether executions have to wait at a point."""
    return (STAGE / f"{point}.hold").exists()


@asynccontextmanager
async def recorded(point: str, **fields: Any) -> AsyncIterator[None]:
    """Record an async execution, which waits while its point is held."""
    record("start", point, **fields)
    while is_held(point):
        await asyncio.sleep(0.02)
    yield
    record("end", point, **fields)


@contextmanager
def recorded_in_thread(point: str, **fields: Any) -> Iterator[None]:
    """Record a sync execution, which waits while its point is held."""
    record("start", point, **fields)
    while is_held(point):
        time.sleep(0.02)
    yield
    record("end", point, **fields)


def of(meta: ToolCallMeta) -> dict[str, Any]:
    """The fields of a record that name the call and its attempt."""
    return meta.model_dump(include={"run_id", "tool_call_id", "idempotency_key", "attempt"})


class Recorded:
    """A planner that plays a script, and records each plan with the messages that it was made from."""

    def __init__(self, *steps: Any) -> None:
        self._script = ScriptedPlanner(steps)

    async def plan_start(self, turn: Turn) -> PlanResult:
        """Record and return the next plan; a run's plans are numbered from 1."""
        number = 1 + sum(message.role == "assistant" for message in turn.messages)
        point = f"{turn.run.agent_id.removeprefix('durable.')}.plan-{number}"
        messages = [message.model_dump(mode="json", exclude_defaults=True) for message in turn.messages]
        attempt = activity.info().attempt
        async with recorded(point, run_id=turn.run.run_id, attempt=attempt, messages=messages):
            return await self._script.plan_start(turn)

    plan_resume = plan_start


desk = Toolset("durable.desk")
remote = Toolset("durable.remote", task_queue=REMOTE_QUEUE)


@desk.tool
async def write(text: str, meta: ToolCallMeta) -> str:
    """Write a note."""
    point = f"{meta.agent_id.removeprefix('durable.')}.write-{text}"
    async with recorded(point, **of(meta)):
        return f"wrote {text}"


@desk.tool
def stamp(text: str, meta: ToolCallMeta) -> str:
    """Stamp a note, in a thread."""
    point = f"{meta.agent_id.removeprefix('durable.')}.stamp-{text}"
    with recorded_in_thread(point, **of(meta)):
        return f"stamped {text}"


@desk.tool
async def hog(text: str, meta: ToolCallMeta) -> str:
    """Block the worker's event loop, once the point `<point>-polite` is released."""
    point = f"{meta.agent_id.removeprefix('durable.')}.hog-{text}"
    while is_held(f"{point}-polite"):
        await asyncio.sleep(0.02)
    with recorded_in_thread(point, **of(meta)):
        return f"hogged {text}"


@desk.tool
async def crash(text: str, meta: ToolCallMeta) -> str:
    """Kill the worker's process."""
    record("start", f"{meta.agent_id.removeprefix('durable.')}.crash-{text}", **of(meta))
    os.kill(os.getpid(), signal.SIGKILL)
    return text


@desk.tool(local=True, idempotent=True)
async def trip(text: str, meta: ToolCallMeta) -> str:
    """Kill the worker's process from a local activity."""
    return await crash(text, meta)


@desk.tool(idempotent=False)
async def post(text: str, meta: ToolCallMeta) -> str:
    """Post a note, which cannot be taken back."""
    async with recorded(f"{meta.agent_id.removeprefix('durable.')}.post-{text}", **of(meta)):
        return f"posted {text}"


@desk.tool(local=True, idempotent=True)
async def file(text: str, meta: ToolCallMeta) -> str:
    """File a note, in a local activity."""
    async with recorded(f"{meta.agent_id.removeprefix('durable.')}.file-{text}", **of(meta)):
        return f"filed {text}"


@remote.tool
async def send(text: str, meta: ToolCallMeta) -> str:
    """Send a note, by a worker of the tool's own task queue."""
    async with recorded(f"{meta.agent_id.removeprefix('durable.')}.send-{text}", **of(meta)):
        return f"sent {text}"


def summary(turn: Turn) -> PlanResult:
    """Answer with every message and result of the run, so that a lost one is missing from the answer."""
    results = [result for message in turn.messages for result in message.tool_results]
    texts = [message.text for message in turn.messages if message.role == "user"]
    return PlanResult.final("; ".join([*texts, *(str(r.result or r.error) for r in results)]))


def write_answer(turn: Turn) -> PlanResult:
    """Call `write` with the person's answer."""
    return PlanResult.calls(write.call(text=turn.messages[-1].text))


clerk = Agent(
    "durable.clerk",
    planner=Recorded(
        PlanResult.calls(write.call(text="one")),
        PlanResult.calls(write.call(text="two"), stamp.call(text="three"), write.call(text="four")),
        summary,
    ),
    uses=[desk],
)
asker = Agent(
    "durable.asker",
    planner=Recorded(
        PlanResult.calls(write.call(text="one")),
        PlanResult.ask(AwaitClarification(id="which", question="Which note?")),
        write_answer,
        summary,
    ),
    uses=[desk],
    policy=RunPolicy(interrupts_allowed=True),
)
clerks = clerk.export("durable.clerks", tools=[AgentTool("ask", args=dict[str, str], user="Write the notes")])
lead = Agent(
    "durable.lead",
    planner=Recorded(
        PlanResult.calls(write.call(text="before")),
        PlanResult.calls(clerks["ask"].call(topic="notes")),
        PlanResult.calls(write.call(text="after")),
        summary,
    ),
    uses=[desk, clerks],
)
sender = Agent(
    "durable.sender",
    planner=Recorded(PlanResult.calls(write.call(text="one"), send.call(text="two")), summary),
    uses=[desk, remote],
)
poster = Agent(
    "durable.poster",
    planner=Recorded(PlanResult.calls(post.call(text="one"), write.call(text="two")), summary),
    uses=[desk],
)
signer = Agent(
    "durable.signer",
    planner=Recorded(PlanResult.calls(post.call(text="one")), summary),
    uses=[desk],
    policy=RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy.supervised()),
)
filer = Agent(
    "durable.filer",
    planner=Recorded(
        PlanResult.calls(write.call(text="one")), PlanResult.calls(file.call(text="two")), summary
    ),
    uses=[desk],
)
namer = Agent(
    "durable.namer",
    planner=Recorded(
        PlanResult.calls(write.call(text="one")),
        # The arguments of this plan's call depend on the worker that made the plan.
        lambda turn: PlanResult.calls(write.call(text=f"by-{WORKER}")),
        summary,
    ),
    uses=[desk],
)

shelver = Agent(
    "durable.shelver",
    planner=Recorded(*(PlanResult.calls(file.call(text=text)) for text in ("one", "two", "three")), summary),
    uses=[desk],
    local=True,
)

hogger = Agent(
    "durable.hogger",
    planner=Recorded(
        PlanResult.calls(*(write.call(text=f"beside-{n}") for n in range(5)), hog.call(text="one")), summary
    ),
    uses=[desk],
)
crasher = Agent(
    "durable.crasher",
    planner=Recorded(PlanResult.calls(crash.call(text="one")), summary),
    uses=[desk],
)
tripper = Agent(
    "durable.tripper",
    planner=Recorded(PlanResult.calls(trip.call(text="one")), summary),
    uses=[desk],
)


async def fatal_local_plan(turn: Turn) -> PlanResult:
    """Kill the worker's process in every turn but the first, which calls a local tool."""
    return await fatal_plan(turn) if turn.tool_results else PlanResult.calls(file.call(text="one"))


async def fatal_plan(turn: Turn) -> PlanResult:
    """Kill the worker's process while it plans."""
    record("start", "gambler.crash-plan", run_id=turn.run.run_id, attempt=activity.info().attempt)
    os.kill(os.getpid(), signal.SIGKILL)
    return PlanResult.final("never")


gambler = Agent("durable.gambler", planner=fatal_plan)
dicer = Agent("durable.dicer", planner=fatal_local_plan, uses=[desk], local=True)

app = App(
    agents=[
        *(clerk, asker, lead, sender, poster, filer, namer, shelver),
        *(hogger, crasher, tripper, gambler, dicer, signer),
    ]
)
