"""An app with planted secrets in all that authors, models and users write: served as `tests.encrypted.planted_app:app`."""

import asyncio
import os
from datetime import timedelta

from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    Notice,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
    progress,
)
from sojourn.contracts.tool_spec import Retry
from sojourn.errors import ToolFailed, ToolUnavailable
from sojourn.storage import FolderStorage

MARK = "planted-4711"
CALLS = 20


def secret(where: str) -> str:
    """A secret that says where it was planted."""
    return f"{MARK}-{where}"


class Question(BaseModel):
    text: str


vault = Toolset("vault.tools", description="Tools with secrets")
tried: set[str] = set()


@vault.tool
async def copy(text: str) -> str:
    """Return another secret."""
    return text.replace("argument", "result")


@vault.tool
async def fail(text: str) -> str:
    """Fail."""
    raise ToolFailed(f"{text} {secret('error')}")


@vault.tool(retry=Retry(max_attempts=2, initial_interval=timedelta(milliseconds=10)))
async def fail_once(text: str) -> str:
    """Fail the first attempt."""
    if text not in tried:
        tried.add(text)
        raise ToolUnavailable(secret("attempt"))
    return secret("second-attempt")


@vault.tool
async def report(text: str) -> str:
    """Report progress until a heartbeat has it."""
    for _ in range(8):
        progress(secret("progress"))
        await asyncio.sleep(0.5)
    return text


@vault.tool
async def fetch_much() -> str:
    """Fetch more than a history holds."""
    return " ".join(secret(f"stored-{number}") for number in range(60_000))


@vault.tool(destructive=True)
async def burn(text: str) -> str:
    """Burn."""
    return secret("burnt")


async def plan(turn):
    """One round of calls, a question, and the answer."""
    if turn.messages[-1].role == "user" and not any(message.tool_calls for message in turn.messages):
        arguments = [copy.call(text=secret(f"argument-{turn.run.run_id}-{n}")) for n in range(CALLS)]
        others = [
            fail.call(text=secret("bad")),
            fail_once.call(text=secret("again")),
            report.call(text=secret("slow")),
        ]
        return PlanResult.calls(*arguments, *others, fetch_much.call(), burn.call(text=secret("fuel")))
    if turn.messages[-1].role == "tool":
        return PlanResult.ask(AwaitClarification(id="q", question=secret("question")))
    return PlanResult.final(f"{secret('answer')} {turn.messages[-1].text}")


async def delegate(turn):
    """Let a child run do it."""
    if not turn.tool_results:
        payload = {"text": secret("child-message")}
        return PlanResult.calls(ToolRequest(name="vault.child.ask", payload=payload, tool_call_id="c1"))
    return PlanResult.final(secret("parent-answer"))


async def talk(turn):
    """Answer in a conversation."""
    return PlanResult.final(f"{secret('talk-answer')} {turn.messages[-1].text}")


async def crash(turn):
    """Fail the run."""
    raise ApplicationError(secret("crash"), non_retryable=True)


async def tell(notice: Notice) -> None:
    """Deliver a notice, once at the second attempt."""
    if notice.id not in tried:
        tried.add(notice.id)
        raise ConnectionError(secret("notice"))


asks = RunPolicy(interrupts_allowed=True, max_tool_calls=100)
worker = Agent("vault.worker", planner=plan, uses=[vault], policy=asks, description=secret("description"))
child = worker.export("vault.child", tools=[AgentTool("ask", args=Question)])
app = App(
    agents=[
        worker,
        Agent("vault.parent", planner=delegate, uses=[child], policy=asks),
        Agent("vault.talker", planner=talk),
        Agent("vault.broken", planner=crash),
    ],
    storage=FolderStorage(os.environ.get("PLANTED_FOLDER", "stored")),
    archive=True,
    on_wait=tell,
    on_turn=tell,
    on_end=tell,
)
