"""An app to talk with for a year: each turn calls a tool once, and its answer says how much of the conversation the planner has.

Conversations go on after the number of events in YEAR_EVENTS, or after more in proportion to an execution's input. The input
may be half as large again as usual, so that 2,000 turns have 50 executions.
"""

import os

import workflows.history_budget
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn

workflows.history_budget.CONTINUE_EVENTS = int(os.environ["YEAR_EVENTS"])
workflows.history_budget.INPUT_BYTES = 12 * workflows.history_budget.CONTINUE_EVENTS

tools = Toolset("year.tools")


@tools.tool(idempotent=True)
async def note(text: str) -> str:
    """Note a text."""
    return text.upper()


async def plan(turn: Turn) -> PlanResult:
    """Note the message, then answer with the number of messages so far and the result."""
    if not turn.results:
        return PlanResult.calls(note.call(text=turn.messages[-1].text))
    said = sum(message.role == "user" for message in turn.messages)
    return PlanResult.final(f"{said} {turn.results[-1].result}")


app = App(agents=[Agent("year.agent", planner=plan, uses=[tools], policy=RunPolicy(interrupts_allowed=True))])
