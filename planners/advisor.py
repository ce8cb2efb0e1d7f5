"""The planner of `ops.advisor`: finds the runbook that fits a case and gives its steps."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from planners.case import Case, decide
from planners.facts import Advice, Runbook, RunbookList
from planners.tool_ids import GET_RUNBOOK, SEARCH_RUNBOOKS
from sojourn import PlanResult, Turn

__all__ = ["Advice", "AdviceQuestion", "plan"]


class AdviceQuestion(BaseModel):
    """What another agent asks the advisor (`ops.advice.ask`)."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    question: str = Field(min_length=1, max_length=400)
    """The case in a few words."""
    site_id: str | None = None
    """The site it is about."""


async def plan(turn: Turn) -> PlanResult:
    """Plan the next step: search, read the best runbook, or answer with its steps."""
    start = max((n for n, message in enumerate(turn.messages) if message.role == "user"), default=None)
    if start is None or not (query := turn.messages[start].text.strip()):
        return PlanResult.final(
            "Tell me the case in a few words.", result=_typed("Tell me the case in a few words.")
        )
    return decide(turn, start, lambda case: _advise(case, query[:400]))


def _advise(case: Case, query: str) -> dict[str, Any]:
    found = case.call(SEARCH_RUNBOOKS, RunbookList, query=query)
    if not found.runbooks:
        case.say("No runbook fits this case.")
        return _typed(case.answer)
    best = case.call(GET_RUNBOOK, Runbook, runbook_id=found.runbooks[0].runbook_id)
    answer = f"Runbook {best.runbook_id} fits: {best.title}."
    case.say(answer)
    for number, step in enumerate(best.steps, start=1):
        case.say(f"{number}. {step}")
    return _typed(answer, best)


def _typed(answer: str, runbook: Runbook | None = None) -> dict[str, Any]:
    steps = runbook.steps if runbook else []
    return Advice(answer=answer, runbook_id=runbook.runbook_id if runbook else None, steps=steps).model_dump()
