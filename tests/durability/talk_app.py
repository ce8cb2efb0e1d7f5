"""An app to talk with: its agent answers each message with the messages that it has read so far.

Its conversations go on in a new execution after 60 events.
"""

import workflows.history_budget
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn

workflows.history_budget.CONTINUE_EVENTS = 60

tools = Toolset("talk.tools")


@tools.tool(idempotent=True)
async def look(text: str) -> str:
    """Look something up."""
    return text.upper()


async def plan(turn: Turn) -> PlanResult:
    """Look each message up, and answer with the texts of all."""
    last = turn.messages[-1]
    if last.role == "tool":
        return PlanResult.final(",".join(m.text for m in turn.messages if m.role == "user"))
    return PlanResult.calls(look.call(text=last.text))


app = App(agents=[Agent("talk.agent", planner=plan, uses=[tools], policy=RunPolicy(max_tool_rounds=100))])
